//! `GET /cells` and `/cells/{c}`.

use crate::{StuckItem, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, SubAssign};

fedgate_engine::words! {
    /// State of a Karmada Cluster.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CellState {
        /// Condition `Ready` of the cell is not True.
        NotReady = "not_ready",
        /// The cell is being deleted.
        Leaving = "leaving",
        /// The cell has no valid city label.
        Unlabelled = "unlabelled",
        /// The cell is ready and has taint `fedgate.dev/draining`. Its deployments move to other cells of the city.
        Draining = "draining",
        /// The cell is ready and is not being drained.
        Ready = "ready",
    }
}

/// A cell as a Karmada Cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellRow {
    /// Name of the Cluster.
    pub cell: String,
    /// City of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// State of the cell.
    pub state: CellState,
    /// Reason of its condition `Ready`; absent while the cell is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `lastTransitionTime` of that condition; absent while the cell is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Version of its Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// Federated and write-back kinds that the cell serves.
    pub serves: Vec<String>,
    /// Number of projects with Instances there.
    pub projects: usize,
    /// Number of copies that Karmada schedules there.
    pub deployments: usize,
    /// Written-back Instances of the cell.
    pub instances: CellInstances,
    /// Number of copies that Karmada has not applied there.
    pub not_applied: usize,
    /// Time of the last change that one of its write-backs brought; absent since the start of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_report: Option<Time>,
}

/// Written-back Instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellInstances {
    /// Present.
    pub existing: u64,
    /// Ready.
    pub ready: u64,
}

impl AddAssign for CellInstances {
    fn add_assign(&mut self, other: Self) {
        self.existing += other.existing;
        self.ready += other.ready;
    }
}

impl SubAssign for CellInstances {
    fn sub_assign(&mut self, other: Self) {
        self.existing -= other.existing;
        self.ready -= other.ready;
    }
}

/// A cell with its projects and what is stuck there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CellDetail {
    /// Row of the cell in the list.
    #[serde(flatten)]
    pub row: CellRow,
    /// Projects with Instances there, by number of Instances; at most 200.
    pub project_names: Vec<String>,
    /// Objects that are stuck there, the oldest first; at most 200.
    pub stuck_objects: Vec<StuckItem>,
}
