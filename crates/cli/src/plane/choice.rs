//! The control plane that command line and kubeconfig choose.

use super::refusals::{credentials, plain, root};
use crate::error::{Error, Kind};
use http::Uri;
use kube::{
    Config,
    config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError},
};
use std::{path::PathBuf, time::Duration};

/// Path of the control plane of a project at its platform's host.
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
const CONTROL_PLANE: &str = "/control-plane";

/// The namespace if neither command line nor context has one.
const NAMESPACE: &str = "default";

/// The choice of the control plane, from the command line. An empty text is no choice.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Path of the kubeconfig; `None` for kubectl's own rules.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context; `None` for the current one.
    pub(crate) context: Option<String>,
    /// A project at the context's host; empty if the context is the project.
    pub(crate) project: String,
    /// The namespace; `None` for the context's.
    pub(crate) namespace: Option<String>,
    /// Time for one request; `None` for no limit.
    pub(crate) request_timeout: Option<Duration>,
    /// True if a program that makes credentials may ask the user.
    pub(crate) is_interactive: bool,
}

/// The connection that was chosen, with its names.
pub(super) struct Chosen {
    pub(super) config: Config,
    pub(super) namespace: String,
    pub(super) project: String,
    pub(super) context: String,
}

impl Choice {
    /// Reads the kubeconfig as kubectl does. Sends no request.
    pub(super) async fn resolve(&self) -> Result<Chosen, Error> {
        let kubeconfig = match self
            .kubeconfig
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty())
        {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = kubeconfig.map_err(|error| unusable(&error))?;
        let named = self.context.clone().filter(|context| !context.is_empty());
        let context = named.clone().or_else(|| kubeconfig.current_context.clone());
        let options = KubeConfigOptions {
            context: named,
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| unusable(&error))?;
        if !self.project.is_empty() {
            config.cluster_url = of_project(config.cluster_url, &self.project)?;
        }
        // Each request has one limit as a whole, and a watch may be silent for longer than that.
        config.read_timeout = None;
        config.connect_timeout = self.request_timeout;
        // The client's own retries go on for minutes and hide their cause.
        config.default_retry = false;
        if let (false, Some(exec)) = (self.is_interactive, &mut config.auth_info.exec) {
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        let namespaces = [self.namespace.as_ref(), Some(&config.default_namespace)];
        let namespace = namespaces.into_iter().flatten().find(|name| !name.is_empty());
        let namespace = namespace.map_or(NAMESPACE, String::as_str).to_owned();
        let context = context.unwrap_or_default();
        let project = project_of(&config.cluster_url).unwrap_or(&context).to_owned();
        Ok(Chosen {
            config,
            namespace,
            project,
            context,
        })
    }
}

/// The URL of a project's control plane at the same host.
fn of_project(url: Uri, project: &str) -> Result<Uri, Error> {
    let wrong = || Error::usage(format!("--project {project:?} is not a name of a project"));
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    if project.starts_with('.') || !project.chars().all(is_letter) {
        return Err(wrong());
    }
    let mut parts = url.into_parts();
    let path = format!("{PROJECTS}{project}{CONTROL_PLANE}").parse();
    parts.path_and_query = Some(path.map_err(|_| wrong())?);
    Uri::from_parts(parts).map_err(|_| wrong())
}

/// Name of the project whose control plane has this URL.
fn project_of(url: &Uri) -> Option<&str> {
    let (_, rest) = url.path().split_once(PROJECTS)?;
    rest.split('/').next().filter(|name| !name.is_empty())
}

/// The error about a control plane that is not known.
fn no_plane(cause: &str) -> Error {
    Error::new(Kind::Failed, format!("no control plane: {cause}")).next("kubectl config get-contexts")
}

/// The error about a kubeconfig.
fn unusable(error: &KubeconfigError) -> Error {
    let file = |name: &str, error: &LoadDataError| {
        no_plane(&format!("the {name} cannot be read")).because(root(error))
    };
    match error {
        KubeconfigError::CurrentContextNotSet => no_plane("no context is set"),
        KubeconfigError::LoadContext(name) if name.is_empty() => no_plane("no context is set"),
        KubeconfigError::LoadContext(name) => no_plane(&format!("the kubeconfig has no context {name:?}")),
        KubeconfigError::LoadClusterOfContext(name) => no_plane(&format!(
            "the kubeconfig has no cluster {name:?}, which the context names"
        )),
        KubeconfigError::FindPath => no_plane("there is no kubeconfig"),
        KubeconfigError::ReadConfig(error, path) => {
            no_plane(&format!("{} cannot be read", path.display())).because(plain(&error.to_string()))
        }
        // The parser shows the lines around a fault, which may have credentials.
        KubeconfigError::Parse(_) => no_plane("the kubeconfig is no valid YAML"),
        KubeconfigError::MissingClusterUrl => no_plane("the context's cluster has no server"),
        KubeconfigError::ParseClusterUrl(error) => {
            no_plane("the server of the context's cluster is no URL").because(error.to_string())
        }
        KubeconfigError::LoadCertificateAuthority(error) => file("certificate authority", error),
        KubeconfigError::LoadClientCertificate(error) => file("client certificate", error),
        KubeconfigError::LoadClientKey(error) => file("client key", error),
        other => no_plane("the kubeconfig cannot be used").because(root(other)),
    }
}

/// The error about a client that cannot be made.
pub(super) fn no_client(error: &kube::Error, config: &Config, context: &str) -> Error {
    match error {
        kube::Error::Auth(error) => credentials(error, config.auth_info.exec.as_ref(), context),
        other => no_plane("the kubeconfig cannot be used").because(root(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_replaces_the_path_and_keeps_the_host() {
        let of =
            |url: &str, project: &str| of_project(url.parse().unwrap(), project).map(|url| url.to_string());
        let url = "https://api.example.com:6443/apis/resourcemanager.miloapis.com/v1alpha1/projects/p/control-plane";
        for path in [
            "",
            "/",
            "/apis/resourcemanager.miloapis.com/v1alpha1/organizations/o/control-plane",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/other/control-plane/",
        ] {
            let context = format!("https://api.example.com:6443{path}");
            assert_eq!(of(&context, "p").as_deref(), Ok(url), "{path}");
        }
        for wrong in ["a/b", "..", "a b", "a?b", "a%2fb"] {
            let what = of("https://x", wrong).unwrap_err().what;
            assert_eq!(what, format!("--project {wrong:?} is not a name of a project"));
        }
    }

    #[test]
    fn the_name_of_a_project_is_in_its_path() {
        let name = |url: &str| project_of(&url.parse().unwrap()).map(str::to_owned);
        let path = "https://x/apis/resourcemanager.miloapis.com/v1alpha1/projects/p/control-plane";
        assert_eq!(name(path).as_deref(), Some("p"));
        assert_eq!(name(&format!("{path}/")).as_deref(), Some("p"));
        assert_eq!(name("https://x/"), None);
    }
}
