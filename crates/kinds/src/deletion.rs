//! When an object may be deleted, and when its deletion is over, as the folder of its kind describes it.

use super::Query;
use serde::Deserialize;
use serde_json::Value;

/// See [`FederatedKind::deletion`](super::FederatedKind::deletion).
#[derive(Debug, Clone, Default)]
pub struct DeletionRules {
    /// When the deletion is over.
    pub finished_when: FinishedWhen,
    /// The guards, in the order of the file.
    pub guards: Vec<Guard>,
    /// True if the annotation `fedgate.dev/abandon` ends the wait for a member.
    pub abandon: bool,
}

/// When the deletion of an object is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FinishedWhen {
    /// When the copy and its binding are gone.
    #[default]
    Released,
    /// When the member's object is gone, too.
    MemberAbsent,
}

/// A value in the object that holds its deletion back.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Selects the value in the project's object.
    pub path: Query,
    /// The text, number or boolean that holds the deletion.
    pub equals: Value,
    /// The message to the tenant.
    pub message: String,
}

impl Guard {
    /// True if it holds the deletion of an object.
    pub fn holds(&self, object: &Value) -> bool {
        self.path.all(object).contains(&&self.equals)
    }
}
