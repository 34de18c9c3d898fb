//! `GET /projects` and `/projects/{p}`.

use crate::{Class, Instances, PlaneState, StuckItem, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectRow {
    /// Its key.
    pub project: String,
    /// State of its plane.
    pub state: PlaneState,
    /// Number of its federated objects.
    pub deployments: usize,
    /// Its Instances, as its deployments report them.
    pub instances: Instances,
    /// The cities of its deployments.
    pub cities: Vec<String>,
    /// Its worst state; absent if all is well.
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
    /// Its class.
    pub class: Class,
    /// Its word, e.g. the reason of a condition.
    pub reason: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// A namespace of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRow {
    /// Its name in the project.
    pub namespace: String,
    /// Its namespace on the hub.
    pub hub_namespace: String,
}

/// A project with its cities, hub namespaces and stuck objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectDetail {
    /// Its row.
    #[serde(flatten)]
    pub row: ProjectRow,
    /// Its namespaces with their hub namespaces, by name; at most 200.
    pub namespaces: Vec<NamespaceRow>,
    /// Its stuck objects, the worst first; at most 200.
    pub stuck_objects: Vec<StuckItem>,
}
