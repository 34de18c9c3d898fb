//! The project's control plane: which one it is, and how it is read.

mod beside;
mod choice;
mod kinds;
mod pages;
mod refusals;
mod requests;
mod unknown;
mod watch;

pub(crate) use choice::Choice;
pub(crate) use kinds::{Resource, Scope, Selection};
pub(crate) use refusals::cause;
pub(crate) use watch::{Follow, News};

use crate::{error::Error, time::ServerClock};
use choice::{Chosen, no_client};
use kube::{Client, Config};
use parking_lot::Mutex;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tower::util::MapResponseLayer;

/// The field manager of every write.
pub(crate) const FIELD_MANAGER: &str = "kubectl-compute";

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
    /// Time for one request; `None` for no limit.
    request_timeout: Option<Duration>,
    /// False if nothing may be printed.
    warns: bool,
    /// Objects that a warning was about.
    left_out: Arc<Mutex<BTreeSet<(Resource, String)>>>,
    /// The server's clock.
    pub(crate) clock: ServerClock,
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
        let Chosen {
            config,
            namespace,
            project,
            context,
        } = choice.resolve().await?;
        let host = config.cluster_url.authority().map(ToString::to_string);
        let clock = ServerClock::default();
        Ok(Self {
            client: client(&config, &clock, &context)?,
            config,
            namespace,
            project,
            host: host.unwrap_or_default(),
            context,
            request_timeout: choice.request_timeout,
            warns: choice.is_interactive,
            left_out: Arc::default(),
            clock,
        })
    }

    /// The client, for kinds of other groups. Its requests are sent by [`Plane::request`].
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
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

/// The name that differs least, if at most by two letters; capitals do not count.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let far = names.map(|other| (strsim::osa_distance(&lower, &other.to_lowercase()), other));
    far.filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other)
}

#[cfg(test)]
pub(crate) mod tests;
