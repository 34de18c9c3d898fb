//! The way of a Workload's city from the project to its Instances and back, and the first broken link of it (contract:
//! cli.md §10). All of this is pure: the objects were read before.

mod cell;
mod chain;
mod hub;
mod project;
mod route;
mod verdict;

pub(crate) use cell::CellView;
pub(crate) use chain::{Chain, Link, State, chain, unprojected};
pub(crate) use hub::HubView;
pub(crate) use verdict::Verdict;

use crate::view::{City, Instances, Object};
use jiff::Timestamp;

/// A hop, in the order of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    /// The deployment in the project.
    Project,
    /// Its copy on the hub.
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

/// The plane that proves a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The project.
    Project,
    /// The hub.
    Hub,
    /// The cell.
    Cell,
    /// No plane: a later hop proves it.
    Inferred,
}

impl Source {
    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Hub => "hub",
            Self::Cell => "cell",
            Self::Inferred => "inferred",
        }
    }
}

/// The proof of a hop, before its age is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It is as it should be.
    Holds,
    /// It is not there yet.
    NotYet,
    /// A condition refuses it.
    Refused,
    /// No plane that was read tells.
    Unseen,
}

/// The finding about a hop.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    proof: Proof,
    object: String,
    since: Option<Timestamp>,
    detail: String,
    generation: Option<i64>,
    source: Source,
}

impl Finding {
    fn new(source: Source, object: impl Into<String>) -> Self {
        Self {
            proof: Proof::Holds,
            object: object.into(),
            since: None,
            detail: String::new(),
            generation: None,
            source,
        }
    }

    fn holds(self, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        self.is(Proof::Holds, since, detail)
    }

    fn not_yet(self, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        self.is(Proof::NotYet, since, detail)
    }

    fn refused(self, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        self.is(Proof::Refused, since, detail)
    }

    fn unseen(self, detail: impl Into<String>) -> Self {
        self.is(Proof::Unseen, None, detail)
    }

    fn is(self, proof: Proof, since: Option<Timestamp>, detail: impl Into<String>) -> Self {
        Self {
            proof,
            since,
            detail: detail.into(),
            ..self
        }
    }
}

/// The findings about all hops of a city.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Findings {
    project: Finding,
    hub: Finding,
    binding: Finding,
    cell: Finding,
    instances: Finding,
    projection: Finding,
}

/// A plane beside the project.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Beside<T> {
    /// The command line does not name it; this flag would.
    NotNamed(&'static str),
    /// It cannot be read.
    Unreadable(String),
    /// It was read.
    Read(T),
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
    /// The hub.
    pub(crate) hub: &'a Beside<HubView>,
    /// The cell.
    pub(crate) cell: &'a Beside<CellView>,
}

#[cfg(test)]
mod tests;
