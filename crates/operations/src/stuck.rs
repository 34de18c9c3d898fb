//! `GET /stuck`: what does not go on, in groups with the same cause.

use crate::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fedgate_engine::words! {
    /// Why an object does not go on, the worst class first.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Class {
        /// A plane is down for 30 s, a project is refused, or a credential has expired.
        Plane = "plane",
        /// A permission is missing.
        Right = "right",
        /// The garbage brake is on, or interpreters drift.
        Brake = "brake",
        /// A verdict holds the object.
        Quarantined = "quarantined",
        /// `Federated` is False for a reason that the tenant has to correct.
        Refused = "refused",
        /// The reconcile of the object fails and is retried.
        Retrying = "retrying",
        /// The object is not yet where it is to go, without a failure.
        Undelivered = "undelivered",
        /// The reconcile of the object failed and waits for a change.
        Waiting = "waiting",
        /// The deletion of the object lasts.
        Deleting = "deleting",
        /// A hub object lacks its origin.
        Orphan = "orphan",
        /// `Available` is not True: the tenant's or the cell's matter.
        Unavailable = "unavailable",
    }
}

impl Class {
    /// The class of a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|class| class.as_str() == text)
    }
}

/// Groups of stuck objects, the worst class first, then the oldest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// The groups.
    pub groups: Vec<StuckGroup>,
    /// Value of the parameter `continue` for the next page; absent on the last one.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of groups after this page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<usize>,
}

/// Objects that are stuck for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckGroup {
    /// The class.
    pub class: Class,
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: String,
    /// Cause, permission, verdict, reason, category or stage.
    pub word: String,
    /// Number of objects.
    pub count: usize,
    /// Since when the oldest has been stuck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Time>,
    /// The next step: a sentence or a command.
    pub next: String,
    /// The oldest objects; at most 20.
    pub items: Vec<StuckItem>,
}

/// A stuck object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StuckItem {
    /// The project; empty if it belongs to none, or to several.
    pub project: String,
    /// Namespace of the object in the project, or on the hub if it has no project.
    pub namespace: String,
    /// Resource of the object, e.g. `workloaddeployments`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The cell; empty if the matter is of no cell.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cell: String,
    /// Since when it has been stuck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// True if `since` says only for how long at least.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub since_at_least: bool,
    /// Number of failures in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Time of the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Time>,
    /// The words of the failure or condition; at most 512 characters.
    pub message: String,
}
