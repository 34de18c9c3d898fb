//! `GET /overview`: the state of the fleet in one object, at most 16 KiB at any size.

use crate::{Class, PlaneState, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ops::{AddAssign, SubAssign},
};

/// The state of the fleet, or of a cell: the fields `projects`, `cells` and `deployments` are those of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Overview {
    /// The state in one word, and its reasons, the worst first.
    pub health: Health,
    /// The hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubSummary>,
    /// Projects by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projects: Option<ProjectCounts>,
    /// Karmada Clusters by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<CellCounts>,
    /// Federated objects.
    pub deployments: Deployments,
    /// Instances as deployments report them.
    pub instances: Instances,
    /// Objects that are not yet where they are to go, by stage; each stage is present.
    pub undelivered: BTreeMap<Stage, Undelivered>,
    /// Number of stuck objects by class; a class without any is absent.
    pub stuck: BTreeMap<Class, usize>,
    /// Keys of the queue.
    pub queue: QueueCounts,
    /// Deletions under way.
    pub deletions: Deletions,
    /// Garbage collection.
    pub garbage: Garbage,
    /// Interpreters on the hub that differ from ours.
    pub interpreter_drift: usize,
}

/// The state in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    /// All planes answer, and nothing holds back the process.
    Ok,
    /// First lists are read.
    #[default]
    Syncing,
    /// A plane is down, a permission is missing, or the brake is on.
    Degraded,
}

/// The state of the process, and its reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Health {
    /// The state in one word.
    pub state: HealthState,
    /// Reasons of the state, the worst first; at most 20.
    pub reasons: Vec<HealthReason>,
}

/// A reason of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthReason {
    /// Class of the reason: `plane`, `right` or `brake`.
    pub class: Class,
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: String,
    /// Cause, permission or brake.
    pub word: String,
    /// Number of planes, permissions or objects.
    pub count: usize,
    /// Since when the oldest of them has lasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The next step.
    pub next: String,
}

/// The hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubSummary {
    /// State of the hub.
    pub state: PlaneState,
    /// Since when it has had this state; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Time of its last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event: Option<Time>,
    /// End of the credential; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_ends: Option<Time>,
}

/// Projects by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectCounts {
    /// Projects with a usable kubeconfig.
    pub engaged: usize,
    /// Projects whose kubeconfig is refused.
    pub refused: usize,
    /// Engaged projects that are watched.
    pub connected: usize,
    /// Engaged projects whose first lists are read.
    pub syncing: usize,
    /// Engaged projects whose watches fail.
    pub backoff: usize,
    /// Engaged projects with a missing permission.
    pub unauthorized: usize,
}

/// Karmada Clusters by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CellCounts {
    /// Ready, and not being drained.
    pub ready: usize,
    /// Ready, and being drained by an operator.
    pub draining: usize,
    /// Not ready.
    pub not_ready: usize,
    /// Without a valid city label.
    pub unlabelled: usize,
    /// Being deleted.
    pub leaving: usize,
}

/// Federated objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deployments {
    /// Number of objects.
    pub total: usize,
    /// Number of objects by the reason of their condition `Federated`; `None` without the condition.
    pub federated: BTreeMap<String, usize>,
}

/// Numbers of Instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Instances {
    /// Wanted.
    pub desired: u64,
    /// Present.
    pub existing: u64,
    /// Ready.
    pub ready: u64,
    /// Number of Instances of the current template.
    pub updated: u64,
}

impl AddAssign for Instances {
    fn add_assign(&mut self, other: Self) {
        self.desired += other.desired;
        self.existing += other.existing;
        self.ready += other.ready;
        self.updated += other.updated;
    }
}

impl SubAssign for Instances {
    fn sub_assign(&mut self, other: Self) {
        self.desired -= other.desired;
        self.existing -= other.existing;
        self.ready -= other.ready;
        self.updated -= other.updated;
    }
}

fedgate_engine::words! {
    /// A hop between planes.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Stage {
        /// An edit or deletion that the hub lacks.
        ProjectToHub = "project_to_hub",
        /// A copy that Karmada has not delivered.
        HubToCell = "hub_to_cell",
        /// A status that the project lacks.
        HubStatusToProject = "hub_status_to_project",
        /// A cell's Instance that the project lacks, or has in an earlier version.
        WritebackToProjection = "writeback_to_projection",
    }
}

/// Objects of a stage that are not yet where they are to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Undelivered {
    /// Number of objects that wait.
    pub count: usize,
    /// Since when the oldest of them has waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Time>,
}

/// Keys of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueCounts {
    /// Ready to run.
    pub ready: usize,
    /// Being reconciled.
    pub running: usize,
    /// Due later.
    pub delayed: usize,
    /// Retried after a failure.
    pub in_backoff: usize,
}

/// Deletions under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletions {
    /// Number of deletions that last.
    pub pending: usize,
    /// `deletionTimestamp` of the oldest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Time>,
}

/// Garbage collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Garbage {
    /// Objects on the hub without an origin.
    pub orphans: usize,
    /// True while nothing is deleted because too many objects look orphaned at once.
    pub brake: bool,
}
