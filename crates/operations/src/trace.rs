//! `GET /trace/{project}/{namespace}/{kind}/{name}`: the way of an object, hop by hop.

use crate::{JournalRow, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way of an object, hop by hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The object.
    pub object: TracedObject,
    /// The worst state of its branches.
    pub verdict: Verdict,
    /// The first broken hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_broken: Option<FirstBroken>,
    /// A branch per placement and city of a Workload; one for a deployment or Instance.
    pub branches: Vec<Branch>,
    /// Instances of the object; at most 200.
    pub instances: Vec<InstanceRow>,
    /// The last writes of its objects, newest first; at most 20.
    pub journal: Vec<JournalRow>,
}

/// An object of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TracedObject {
    /// The project.
    pub project: String,
    /// Namespace of the object.
    pub namespace: String,
    /// `workloads`, the plural of a federated kind, or `instances`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

/// State of the whole way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A hop is broken.
    Broken,
    /// A hop waits.
    Moving,
    /// Every hop is whole.
    Whole,
}

/// The first broken hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirstBroken {
    /// The placement; empty without a Workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub placement: String,
    /// The city.
    pub city: String,
    /// The hop.
    pub hop: HopKind,
    /// The cause.
    pub detail: String,
    /// The next step.
    pub next: String,
}

/// The way to a city.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Branch {
    /// The placement; empty without a Workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub placement: String,
    /// The city.
    pub city: String,
    /// The hops, in order.
    pub hops: Vec<Hop>,
}

fedgate_engine::words! {
    /// A kind of hop, in the order of an object's way.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum HopKind {
        /// The deployment in the project.
        Project = "project",
        /// The key's last failure; present only if there is one.
        Write = "write",
        /// The copy on the hub.
        Hub = "hub",
        /// Karmada's binding.
        Binding = "binding",
        /// The cell's report.
        Cell = "cell",
        /// The Instances that the cell wrote back.
        Instances = "instances",
        /// The project's Instances.
        Projection = "projection",
    }
}

/// State of a hop (contract: cli.md §10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HopState {
    /// Whole.
    Ok,
    /// Not yet, younger than two minutes.
    Waiting,
    /// Older, or refused by a condition.
    Broken,
    /// Not visible to this process, because a list is not complete.
    Unseen,
}

/// The plane that proves a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HopSource {
    /// The project.
    Project,
    /// The hub.
    Hub,
    /// A later hop.
    Inferred,
}

/// A hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Kind of the hop.
    pub hop: HopKind,
    /// The plane of its object: `project` or `hub`.
    pub plane: String,
    /// Object of the hop; the cell for the hop `cell`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// State of the hop.
    pub state: HopState,
    /// Since when it has had this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The wanted generation, or number of Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants: Option<i64>,
    /// The present generation, or number of Instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has: Option<i64>,
    /// Reason or category, if the hop is not whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub word: String,
    /// Details.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The plane that proves the state.
    pub source: HopSource,
}

/// An Instance of the traced object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceRow {
    /// Name of the Instance.
    pub name: String,
    /// City of the Instance.
    pub city: String,
    /// The cell that wrote it back.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cell: String,
    /// True if its condition `Ready` is True on the hub.
    pub ready: bool,
    /// True if the project has it, with the correct owner.
    pub projected: bool,
    /// The verdict that holds it, if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub word: String,
}
