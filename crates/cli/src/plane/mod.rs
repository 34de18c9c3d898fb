//! The project's control plane: which one it is, and how it is read.

mod choice;
mod kinds;
mod refusals;
mod requests;
mod unknown;
mod watch;

pub(crate) use choice::Choice;
pub(crate) use kinds::Resource;
pub(crate) use kube::api::ListParams;
pub(crate) use refusals::cause;
pub(crate) use watch::{Follow, named};

use crate::time::ServerClock;
use kube::Client;
use std::time::Duration;

/// The field manager of every write.
pub(crate) const FIELD_MANAGER: &str = "kubectl-compute";

/// A project's control plane.
#[derive(Clone)]
pub(crate) struct Plane {
    client: Client,
    /// The namespace of the command.
    pub(crate) namespace: String,
    /// The project's name for people.
    pub(crate) project: String,
    /// Host and port, for errors.
    host: String,
    context: String,
    /// Time for one request; `None` for no limit.
    request_timeout: Option<Duration>,
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

/// The name that differs least, if at most by two letters; capitals do not count.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let far = names.map(|other| (strsim::osa_distance(&lower, &other.to_lowercase()), other));
    far.filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, other)| other)
}

/// A question for the nearest of these names; empty if none is near.
pub(crate) fn meant<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = nearest(name, names).map(|near| format!("; did you mean {near:?}?"));
    near.unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
