//! The control plane that command line and kubeconfig choose.

use super::{Plane, refusals::credentials};
use crate::{
    error::{Error, Kind},
    time::ServerClock,
};
use fedgate_kubeconfig::{LoadError, Loaded, load, root};
use http::Uri;
use kube::{Client, Config};
use std::{error::Error as _, path::PathBuf, time::Duration};
use tower::util::MapResponseLayer;

/// Path of the control plane of a project at its platform's host.
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
const CONTROL_PLANE: &str = "/control-plane";

/// The choice of the control plane. An empty text is no choice.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Choice {
    /// Path of the kubeconfig; default: as kubectl's
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; default: the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Project at the context's host; default: the context is the project
    #[arg(
        long,
        global = true,
        value_name = "ID",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) project: String,
    /// Namespace; default: the context's
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

impl Plane {
    /// Reads the kubeconfig as kubectl does. Sends no request. A program that makes credentials may ask the user if
    /// `is_interactive`; a request takes no longer than `limit`, unless that is zero.
    pub(crate) async fn open(choice: &Choice, limit: Duration, is_interactive: bool) -> Result<Self, Error> {
        let request_timeout = Some(limit).filter(|limit| !limit.is_zero());
        let (path, context) = (choice.kubeconfig.as_deref(), choice.context.as_deref());
        let loaded = load(path, context, is_interactive).await;
        let Loaded {
            mut config, context, ..
        } = loaded.map_err(|error| unusable(&error))?;
        if !choice.project.is_empty() {
            config.cluster_url = of_project(config.cluster_url, &choice.project)?;
        }
        // Each request has one limit as a whole.
        config.connect_timeout = request_timeout;
        let given = choice.namespace.clone().filter(|name| !name.is_empty());
        let clock = ServerClock::default();
        let host = config.cluster_url.authority().map(ToString::to_string);
        Ok(Self {
            client: client(&config, &clock, &context)?,
            namespace: given.unwrap_or_else(|| config.default_namespace.clone()),
            project: project_of(&config.cluster_url).unwrap_or(&context).to_owned(),
            host: host.unwrap_or_default(),
            context,
            request_timeout,
            clock,
        })
    }
}

/// A client that observes the server's clock.
fn client(config: &Config, clock: &ServerClock, context: &str) -> Result<Client, Error> {
    let builder = fedgate_kubeconfig::client(config);
    let builder = builder.map_err(|error| no_client(&error, config, context))?;
    let observed = clock.clone();
    let dates = MapResponseLayer::new(move |response: http::Response<_>| {
        observed.observe(response.headers());
        response
    });
    Ok(builder.with_layer(&dates).build())
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

/// The error about a kubeconfig, which leaves no control plane.
fn unusable(error: &LoadError) -> Error {
    let unusable = Error {
        cause: error.source().map(root),
        ..Error::new(Kind::Failed, format!("no control plane: {error}"))
    };
    unusable.next(match error {
        LoadError::TokenExpired(context) => format!("kubectl auth whoami --context {context}"),
        _ => "kubectl config get-contexts".to_owned(),
    })
}

/// The error about a client that cannot be made.
fn no_client(error: &kube::Error, config: &Config, context: &str) -> Error {
    match error {
        kube::Error::Auth(error) => credentials(error, config.auth_info.exec.as_ref(), context),
        other => Error::new(Kind::Failed, "no control plane: the kubeconfig cannot be used")
            .because(root(other))
            .next("kubectl config get-contexts"),
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
