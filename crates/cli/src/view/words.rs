//! The words for a Workload's health and an Instance's state (contract: cli.md §4). The first match wins.

use super::{Counts, Object};
use fedgate_api::conditions::types::{AVAILABLE, PROGRAMMED, QUOTA_GRANTED, READY};
use std::fmt;

/// The health of a Workload, for filters and footers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HealthWord {
    /// All placements have their Instances.
    Available,
    /// A new template is being rolled out.
    Progressing,
    /// Instances are missing.
    Degraded,
    /// No Instance is ready.
    Unavailable,
    /// No cell has reported.
    Unknown,
    /// The Workload is being deleted.
    Deleting,
}

impl HealthWord {
    /// All of them, in the order of footers.
    pub(crate) const ALL: [Self; 6] = [
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::Unavailable,
        Self::Unknown,
        Self::Deleting,
    ];

    /// The word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::Unavailable => "Unavailable",
            Self::Unknown => "Unknown",
            Self::Deleting => "Deleting",
        }
    }
}

/// The health of a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    /// The word.
    pub(crate) word: HealthWord,
    /// The rest of the text; empty if the word says it all.
    pub(crate) detail: String,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word.word())?;
        if self.detail.is_empty() {
            return Ok(());
        }
        write!(f, " - {}", self.detail)
    }
}

impl Health {
    /// The health of a Workload with these counts.
    pub(crate) fn of(workload: &Object, counts: Counts) -> Self {
        let health = |word, detail: &str| Self {
            word,
            detail: detail.to_owned(),
        };
        if workload.is_deleting() {
            return health(HealthWord::Deleting, "");
        }
        match workload.condition(AVAILABLE) {
            Some(condition) if condition.status == "False" => {
                let reason = match condition.reason {
                    "" => "no healthy instances",
                    reason => reason,
                };
                health(HealthWord::Unavailable, reason)
            }
            Some(condition) if condition.holds() => {
                let Counts {
                    updated,
                    ready,
                    desired,
                    ..
                } = counts;
                if updated < desired {
                    let text = format!("{updated} of {desired} instances up to date");
                    health(HealthWord::Progressing, &text)
                } else if ready < desired {
                    let text = format!("{} instances below desired count", desired - ready);
                    health(HealthWord::Degraded, &text)
                } else {
                    health(HealthWord::Available, "all placements at desired replicas")
                }
            }
            Some(_) | None => health(HealthWord::Unknown, ""),
        }
    }
}

/// The state of an Instance, for footers and colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InstanceWord {
    /// It serves.
    Available,
    /// It waits.
    Pending,
    /// It starts.
    Starting,
    /// It cannot start.
    Failed,
    /// It is being deleted.
    Terminating,
}

/// The state of an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceState {
    /// The word.
    pub(crate) word: InstanceWord,
    /// The text in lists, which begins with the word.
    pub(crate) text: String,
}

impl InstanceState {
    /// The state of an Instance.
    pub(crate) fn of(instance: &Object) -> Self {
        use InstanceWord::{Available, Failed, Pending, Starting, Terminating};
        let state = |word, text: &str| Self {
            word,
            text: text.to_owned(),
        };
        let ready = instance.condition(READY);
        let quota = instance.condition(QUOTA_GRANTED);
        let quota = quota.map(|c| (c.status, c.reason)).unwrap_or_default();
        let programmed = instance.condition(PROGRAMMED).filter(|c| !c.holds());
        let programmed = programmed.map(|c| c.reason).unwrap_or_default();
        let gated = !instance.list("/spec/controller/schedulingGates").is_empty();
        if instance.is_deleting() {
            return state(Terminating, "Terminating");
        }
        if ready.is_some_and(|ready| ready.holds()) {
            return state(Available, "Available");
        }
        match (quota, programmed) {
            (("False", "QuotaExceeded"), _) => state(Pending, "Pending (quota exceeded)"),
            (("False", "ValidationFailed"), _) => state(Pending, "Pending (quota validation failed)"),
            (("Unknown", "PendingEvaluation"), _) => state(Pending, "Pending (quota evaluation)"),
            (_, "ImageUnavailable") => state(Failed, "Failed (image unavailable)"),
            (_, "InstanceCrashing") => state(Failed, "Failed (crashing)"),
            (_, "ConfigurationError") => state(Failed, "Failed (configuration error)"),
            (_, "PendingProgramming" | "ProgrammingInProgress") if !gated => state(Starting, "Starting"),
            _ => match ready.map(|ready| ready.reason).unwrap_or_default() {
                "" => state(Pending, "Pending"),
                reason => state(Pending, &format!("Pending ({reason})")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(conditions: &[(&str, &str, &str)], more: &Value) -> Object {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status, reason)| json!({"type": type_, "status": status, "reason": reason}))
            .collect();
        let mut object = json!({"metadata": {"name": "web"}, "status": {"conditions": conditions}});
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Object(object)
    }

    #[test]
    fn each_row_of_the_table_of_health() {
        let counts = |updated, ready| Counts {
            replicas: 2,
            updated,
            ready,
            desired: 2,
        };
        let of = |status: &str, reason: &str, counts| {
            Health::of(&object(&[("Available", status, reason)], &json!({})), counts).to_string()
        };
        assert_eq!(of("False", "NoCells", counts(2, 2)), "Unavailable - NoCells");
        assert_eq!(
            of("False", "", counts(2, 2)),
            "Unavailable - no healthy instances"
        );
        assert_eq!(of("Unknown", "X", counts(2, 2)), "Unknown");
        assert_eq!(
            of("True", "X", counts(1, 1)),
            "Progressing - 1 of 2 instances up to date"
        );
        assert_eq!(
            of("True", "X", counts(2, 1)),
            "Degraded - 1 instances below desired count"
        );
        assert_eq!(
            of("True", "X", counts(2, 2)),
            "Available - all placements at desired replicas"
        );
        assert_eq!(
            Health::of(&object(&[], &json!({})), counts(2, 2)).to_string(),
            "Unknown"
        );
        let leaving = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
        let leaving = object(&[("Available", "True", "X")], &leaving);
        assert_eq!(Health::of(&leaving, counts(2, 2)).to_string(), "Deleting");
    }

    #[test]
    fn each_row_of_the_table_of_instances() {
        let of = |conditions: &[(&str, &str, &str)], more: Value| {
            InstanceState::of(&object(conditions, &more)).text
        };
        let none = || json!({});
        let gated = || json!({"spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}});
        assert_eq!(of(&[("Ready", "True", "X")], none()), "Available");
        let rows = [
            (
                "QuotaGranted",
                "False",
                "QuotaExceeded",
                "Pending (quota exceeded)",
            ),
            (
                "QuotaGranted",
                "False",
                "ValidationFailed",
                "Pending (quota validation failed)",
            ),
            (
                "QuotaGranted",
                "Unknown",
                "PendingEvaluation",
                "Pending (quota evaluation)",
            ),
            (
                "Programmed",
                "False",
                "ImageUnavailable",
                "Failed (image unavailable)",
            ),
            ("Programmed", "Unknown", "InstanceCrashing", "Failed (crashing)"),
            (
                "Programmed",
                "False",
                "ConfigurationError",
                "Failed (configuration error)",
            ),
            ("Programmed", "Unknown", "ProgrammingInProgress", "Starting"),
            ("Programmed", "Unknown", "PendingProgramming", "Starting"),
            ("Ready", "False", "SomethingNew", "Pending (SomethingNew)"),
        ];
        for (type_, status, reason, text) in rows {
            assert_eq!(of(&[(type_, status, reason)], none()), text);
        }
        let gate = [
            ("Programmed", "Unknown", "PendingProgramming"),
            ("Ready", "False", "SchedulingGatesPresent"),
        ];
        assert_eq!(of(&gate, gated()), "Pending (SchedulingGatesPresent)");
        assert_eq!(of(&[], none()), "Pending");
        let leaving = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
        assert_eq!(of(&[("Ready", "True", "X")], leaving), "Terminating");
    }
}
