//! The project's control plane: which one it is, and how it is read.

mod beside;
mod kinds;
mod refusals;
mod requests;
mod watch;

pub(crate) use kinds::{Resource, Selection};
pub(crate) use refusals::cause;
pub(crate) use watch::{Follow, News};

use crate::{
    error::{Error, Kind},
    time::ServerClock,
};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig},
};
use std::{path::PathBuf, time::Duration};
use tokio::sync::watch as channel;
use tower::util::MapResponseLayer;

/// The field manager of every write.
pub(crate) const FIELD_MANAGER: &str = "kubectl-compute";

/// Number of objects in a page of a list.
const PAGE: u32 = 500;

/// Path of the control plane of a project at its platform's host.
const PROJECTS: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
const CONTROL_PLANE: &str = "/control-plane";

/// The choice of the control plane, from the command line.
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

/// A project's control plane.
#[derive(Clone)]
pub(crate) struct Plane {
    client: Client,
    config: Config,
    /// The namespace of the command.
    pub(crate) namespace: String,
    /// The project's name for people.
    pub(crate) project: String,
    /// Host and port, for errors.
    host: String,
    context: String,
    /// The server's clock.
    pub(crate) clock: ServerClock,
    /// Notified of each request that succeeds: a watch that goes on after a failure has no event of its own.
    contact: channel::Sender<()>,
}

impl std::fmt::Debug for Plane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plane")
            .field("project", &self.project)
            .finish_non_exhaustive()
    }
}

impl Plane {
    /// Reads the kubeconfig as kubectl does. Sends no request.
    pub(crate) async fn open(choice: &Choice) -> Result<Self, Error> {
        let kubeconfig = match &choice.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = kubeconfig.map_err(|error| no_plane(&error.to_string()))?;
        let context = choice
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone());
        let context = context.unwrap_or_default();
        let options = KubeConfigOptions {
            context: choice.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = config.map_err(|error| no_plane(&error.to_string()))?;
        if !choice.project.is_empty() {
            let host = config.cluster_url.to_string();
            let (origin, _) = host
                .split_once(PROJECTS)
                .unwrap_or((host.trim_end_matches('/'), ""));
            let url = format!("{origin}{PROJECTS}{}{CONTROL_PLANE}", choice.project);
            config.cluster_url = url.parse().map_err(|_| {
                Error::usage(format!(
                    "--project {:?} is not a name of a project",
                    choice.project
                ))
            })?;
        }
        config.read_timeout = choice.request_timeout;
        config.connect_timeout = choice.request_timeout;
        if let (false, Some(exec)) = (choice.is_interactive, &mut config.auth_info.exec) {
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        let namespace = choice
            .namespace
            .clone()
            .unwrap_or_else(|| config.default_namespace.clone());
        let path = config.cluster_url.path();
        let named = path
            .split_once(PROJECTS)
            .map(|(_, rest)| rest.trim_end_matches(CONTROL_PLANE));
        let project = named.unwrap_or(&context).to_owned();
        let host = config
            .cluster_url
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default();
        let clock = ServerClock::default();
        let contact = channel::Sender::new(());
        let client = client(config.clone(), &clock, &contact)?;
        Ok(Self {
            client,
            config,
            namespace,
            project,
            host,
            context,
            clock,
            contact,
        })
    }

    /// The client, for kinds of other groups.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The same for watches, which may be silent for longer than a request.
    fn watching(&self) -> Result<Self, Error> {
        let mut config = self.config.clone();
        config.read_timeout = None;
        Ok(Self {
            client: client(config.clone(), &self.clock, &self.contact)?,
            config,
            ..self.clone()
        })
    }
}

/// A client that observes the server's clock, and notifies of each request that succeeds.
fn client(config: Config, clock: &ServerClock, contact: &channel::Sender<()>) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_plane(&error.to_string()))?;
    let (observed, contact) = (clock.clone(), contact.clone());
    let dates = MapResponseLayer::new(move |response: http::Response<_>| {
        observed.observe(response.headers());
        if response.status().is_success() {
            contact.send_replace(());
        }
        response
    });
    Ok(builder.with_layer(&dates).build())
}

fn no_plane(cause: &str) -> Error {
    Error::new(Kind::Failed, "no control plane: no context is set")
        .because(cause)
        .next("kubectl config get-contexts")
}

/// The name that differs least, if at most by two letters.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = names.map(|other| (strsim::osa_distance(name, other), other));
    far.filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests;
