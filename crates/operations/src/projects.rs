//! `GET /projects` and `/projects/{p}`.

use crate::{Class, Instances, PlaneState, StuckItem, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectRow {
    /// Key of the project.
    pub project: String,
    /// State of its plane.
    pub state: PlaneState,
    /// Number of its federated objects.
    pub deployments: usize,
    /// Instances of the project, as its deployments report them.
    pub instances: Instances,
    /// The cities of its deployments.
    pub cities: Vec<String>,
    /// Worst state of the project; absent if all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// Number of its objects that are not yet where they are to go.
    pub undelivered: usize,
    /// Number of its stuck objects.
    pub stuck: usize,
}

/// The worst state of a project, city or cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worst {
    /// Class of the state.
    pub class: Class,
    /// Reason, e.g. that of a condition.
    pub reason: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// A namespace of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRow {
    /// Name of the namespace in the project.
    pub namespace: String,
    /// Name of the namespace on the hub.
    pub hub_namespace: String,
}

/// A project with its cities, hub namespaces and stuck objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectDetail {
    /// Row of the project in the list.
    #[serde(flatten)]
    pub row: ProjectRow,
    /// Namespaces of the project with their hub namespaces, by name; at most 200.
    pub namespaces: Vec<NamespaceRow>,
    /// Stuck objects of the project, the worst first; at most 200.
    pub stuck_objects: Vec<StuckItem>,
}
