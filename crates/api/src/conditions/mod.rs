//! Conditions, the closed list of reasons that we write, and the one priority table (contract: api.md §1, §8).

mod reason;

pub use reason::{CONDITIONS, Reason};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Condition types of our kinds.
pub mod types {
    /// Workload, placement, deployment, Instance: something serves.
    pub const AVAILABLE: &str = "Available";
    /// Workload with metrics: an autoscaler looks after it.
    pub const AUTOSCALING_READY: &str = "AutoscalingReady";
    /// Deployment with a rollout strategy: its rollout is complete or goes on.
    pub const PROGRESSING: &str = "Progressing";
    /// Deployment: the desired number of Instances is ready.
    pub const REPLICAS_READY: &str = "ReplicasReady";
    /// Deployment, Instance: ConfigMaps and Secrets are where they are needed.
    pub const REFERENCED_DATA_READY: &str = "ReferencedDataReady";
    /// Deployment in the project: it reached a cell.
    pub const FEDERATED: &str = "Federated";
    /// Instance: the provider applied it.
    pub const PROGRAMMED: &str = "Programmed";
    /// Instance: it serves, all in all. Workload: everything that it asks for is ready.
    pub const READY: &str = "Ready";
    /// Workload: it lacks something that needs an edit. Only ever True.
    pub const STALLED: &str = "Stalled";
    /// Workload: a deployment of a former place serves until those that replace it are ready. Only ever True.
    pub const MOVING: &str = "Moving";
    /// Instance: it has been ready once. Only ever True, and written when that ends.
    pub const INITIALIZED: &str = "Initialized";
    /// Instance: quota was granted.
    pub const QUOTA_GRANTED: &str = "QuotaGranted";
}

/// A condition as in metav1. Lists of them are plain: server-side apply treats one as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is said, e.g. `Available`. One per type in a list.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word of the enumeration [`Reason`], or a foreign one.
    #[schemars(
        length(min = 1, max = 1024),
        regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    )]
    pub reason: String,
    /// Why, for people.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When `status` last changed; other fields do not move it.
    #[schemars(schema_with = "date_time")]
    pub last_transition_time: Time,
    /// Generation of the object that carries the condition, as last acted upon. None in projections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Schema of a time.
fn date_time(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "date-time"})
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl JsonSchema for ConditionStatus {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConditionStatus".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "enum": ["True", "False", "Unknown"]})
    }
}

impl Condition {
    /// A condition that changes now; [`set`] keeps the older time if its status did not change.
    pub fn new(type_: &str, status: ConditionStatus, reason: &str, message: &str, now: Timestamp) -> Self {
        Self {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(whole_seconds(now)),
            observed_generation: None,
        }
    }

    /// The same, acted upon at this generation.
    #[must_use]
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }

    /// Priority of its reason.
    pub fn priority(&self) -> u8 {
        priority(&self.reason)
    }
}

/// Times on the wire have whole seconds.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Puts `new` in the place of the condition of its type; the time stays if the status does.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition) {
    match conditions.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
        None => conditions.push(new),
    }
}

/// Whether an object serves: the status of its conditions `Ready` and `Available`. Others wait for a change of these,
/// so it is written before steps of progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Serving([Option<ConditionStatus>; 2]);

impl Serving {
    /// Reads a status.
    pub fn of(status: &serde_json::Value) -> Self {
        let conditions = status["conditions"].as_array();
        let list = || conditions.into_iter().flatten();
        let read = |of: &str| {
            let found = list().find(|condition| condition["type"] == of);
            found.and_then(|condition| condition["status"].as_str())
        };
        Self::of_statuses(read)
    }

    /// Reads it by a function from a condition's type to its status.
    pub fn of_statuses<'a>(status: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self([types::READY, types::AVAILABLE].map(|of| match status(of)? {
            "True" => Some(ConditionStatus::True),
            "False" => Some(ConditionStatus::False),
            _ => Some(ConditionStatus::Unknown),
        }))
    }

    /// True if `Ready` is True.
    pub fn is_ready(self) -> bool {
        self.0[0] == Some(ConditionStatus::True)
    }
}

/// The worst of those that are False or Unknown: the highest priority, among equals the first.
pub fn worst<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> Option<&'a Condition> {
    let mut worst: Option<&Condition> = None;
    for condition in conditions
        .into_iter()
        .filter(|c| c.status != ConditionStatus::True)
    {
        if worst.is_none_or(|w| condition.priority() > w.priority()) {
            worst = Some(condition);
        }
    }
    worst
}

/// Priority of a reason; 0 for one that we do not know.
pub fn priority(reason: &str) -> u8 {
    Reason::parse(reason).and_then(Reason::priority).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: ConditionStatus, reason: Reason, second: i64) -> Condition {
        Condition::new(
            type_,
            status,
            reason.as_str(),
            "",
            Timestamp::from_second(second).unwrap(),
        )
    }

    #[test]
    fn the_worst_is_the_first_of_the_highest_and_true_never_competes() {
        use ConditionStatus::{False, True, Unknown};
        let conditions = [
            condition("A", True, Reason::Ready, 0),
            condition("B", Unknown, Reason::Resolving, 0),
            condition("C", False, Reason::ReferencedDataNotReady, 0),
            condition("D", False, Reason::Pending, 0),
        ];
        assert_eq!(worst(&conditions).unwrap().type_, "B");
        assert_eq!(worst(&conditions[..1]), None);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        use ConditionStatus::{False, True};
        let mut list = vec![condition("A", False, Reason::Pending, 10)];
        set(&mut list, condition("A", False, Reason::Resolving, 20));
        assert_eq!(list, [condition("A", False, Reason::Resolving, 10)]);
        set(&mut list, condition("A", True, Reason::Ready, 30));
        assert_eq!(list, [condition("A", True, Reason::Ready, 30)]);
    }

    #[test]
    fn serving_differs_by_the_status_of_ready_and_available_alone() {
        let of = |type_: &str, status: &str, reason: &str| {
            Serving::of(
                &serde_json::json!({"conditions": [{"type": type_, "status": status, "reason": reason}]}),
            )
        };
        assert_eq!(of("Ready", "True", "A"), of("Ready", "True", "B"));
        assert_eq!(of("Programmed", "True", "A"), Serving::default());
        let all = ["Ready", "Available"].map(|t| ["True", "False", "Unknown"].map(|s| of(t, s, "A")));
        let distinct: std::collections::HashSet<Serving> = all.into_iter().flatten().collect();
        assert_eq!(distinct.len(), 6);
        assert!(!distinct.contains(&Serving::of(&serde_json::Value::Null)));
    }
}
