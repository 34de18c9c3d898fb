//! `GET /planes`: the hub, the projects and the cell's own plane, the worst first after the hub.

use crate::{Page, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of planes, and the projects whose kubeconfig is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Planes {
    /// The page.
    #[serde(flatten)]
    pub page: Page<PlaneRow>,
    /// Projects whose kubeconfig is refused, by name; at most 200, on the first page alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedProject>,
}

fedgate_engine::words! {
    /// State of a plane.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum PlaneState {
        /// A watch or a required permission is forbidden.
        Unauthorized = "unauthorized",
        /// A watch fails.
        Backoff = "backoff",
        /// First lists are read.
        Syncing = "syncing",
        /// All watches run.
        Connected = "connected",
    }
}

/// A plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaneRow {
    /// `hub`, `cell` or the project.
    pub plane: String,
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub kind: String,
    /// State of the plane.
    pub state: PlaneState,
    /// Since when it has been engaged.
    pub engaged_since: Time,
    /// Since when it answers neither watches nor calls; absent while it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_since: Option<Time>,
    /// Time of its last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Time>,
    /// End of the credential; absent if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_ends: Option<Time>,
    /// Permissions that it denies: `<verb> <resource>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_rights: Vec<String>,
    /// The last error of a watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The next step, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Watches of the plane.
    pub watches: Vec<WatchRow>,
}

/// A watch of a plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchRow {
    /// The resource and its group.
    pub kind: String,
    /// True once its first list is complete.
    pub synced: bool,
    /// True if the plane forbids it.
    pub forbidden: bool,
    /// Number of its failures.
    pub restarts: u64,
    /// The present error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A project whose kubeconfig is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedProject {
    /// The project.
    pub project: String,
    /// The reason.
    pub reason: String,
}
