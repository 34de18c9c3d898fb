//! The way of a Workload's city from the project to its Instances and back, and the first broken link of it, as the
//! project's own objects tell (contract: cli.md §10). The module is pure: the objects were read before.

mod chain;
mod links;
mod verdict;

pub(crate) use chain::{Chain, chain, unprojected};
pub(crate) use verdict::Verdict;

use crate::{
    output::style::Tone,
    view::{City, Instances, Object},
};
use jiff::Timestamp;

/// A hop, in the order of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    /// The deployment in the project.
    Project,
    /// The copy of the deployment on the hub.
    Hub,
    /// Karmada's binding of the copy.
    Binding,
    /// The deployment in the cell.
    Cell,
    /// The Instances in the cell.
    Instances,
    /// The Instances in the project.
    Projection,
}

impl Hop {
    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Hub => "hub",
            Self::Binding => "binding",
            Self::Cell => "cell",
            Self::Instances => "instances",
            Self::Projection => "projection",
        }
    }
}

/// The state of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Not yet as it should be.
    Waiting,
    /// Refused, or waiting for too long.
    Broken,
    /// Not known: no object of the project tells.
    Unseen,
}

impl State {
    /// The word and its tone.
    pub(crate) const fn word(self) -> (&'static str, Tone) {
        match self {
            Self::Ok => ("ok", Tone::Good),
            Self::Waiting => ("waiting", Tone::Busy),
            Self::Broken => ("broken", Tone::Bad),
            Self::Unseen => ("unseen", Tone::Dim),
        }
    }
}

/// A hop with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The hop.
    pub(crate) hop: Hop,
    /// The object that proves it.
    pub(crate) object: String,
    /// The state.
    pub(crate) state: State,
    /// The time when it came into this state.
    pub(crate) since: Option<Timestamp>,
    /// The reason.
    pub(crate) detail: String,
    /// The project's generation that it has.
    pub(crate) generation: Option<i64>,
    /// True if no object proves it, but a later hop does.
    pub(crate) is_inferred: bool,
}

impl Link {
    /// The source of the proof.
    pub(crate) const fn source(&self) -> &'static str {
        if self.is_inferred { "inferred" } else { "project" }
    }
}

/// The objects that tell of a city.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The Workload.
    pub(crate) workload: &'a Object,
    /// The placement and city.
    pub(crate) city: &'a City,
    /// The deployment in the project.
    pub(crate) deployment: Option<&'a Object>,
    /// All Instances of the project.
    pub(crate) instances: &'a Instances,
    /// The Events of the project about deployments, as far as they were read.
    pub(crate) events: &'a [Object],
}

#[cfg(test)]
mod tests;
