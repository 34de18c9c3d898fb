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
            Some(condition) if condition.status == "False" => match (workload.stalled(), condition.reason) {
                (Some(cause), _) => health(HealthWord::Unavailable, &cause.text()),
                (None, "") => health(HealthWord::Unavailable, "no healthy instances"),
                (None, reason) => health(HealthWord::Unavailable, reason),
            },
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
                    let text = format!("{} instances below desired count", desired.saturating_sub(ready));
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

/// The state of an Instance: a row of the table in the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceState<'a> {
    /// It is being deleted.
    Terminating,
    /// It serves.
    Available,
    /// The quota is used up.
    QuotaExceeded,
    /// The request for quota is invalid.
    QuotaInvalid,
    /// The request for quota is not decided.
    QuotaOpen,
    /// The image cannot be pulled.
    NoImage,
    /// The program ends again and again.
    Crashing,
    /// The configuration is wrong.
    Misconfigured,
    /// It starts.
    Starting,
    /// It is not ready, for this reason of the server; empty if there is none.
    Pending(&'a str),
}

impl<'a> InstanceState<'a> {
    /// The state of an Instance.
    pub(crate) fn of(instance: &'a Object) -> Self {
        let ready = instance.condition(READY);
        let quota = instance.condition(QUOTA_GRANTED);
        let quota = quota.map(|c| (c.status, c.reason)).unwrap_or_default();
        let programmed = instance.condition(PROGRAMMED).filter(|c| !c.holds());
        let programmed = programmed.map(|c| c.reason).unwrap_or_default();
        let gated = !instance.list("/spec/controller/schedulingGates").is_empty();
        if instance.is_deleting() {
            return Self::Terminating;
        }
        if ready.is_some_and(|ready| ready.holds()) {
            return Self::Available;
        }
        match (quota, programmed) {
            (("False", "QuotaExceeded"), _) => Self::QuotaExceeded,
            (("False", "ValidationFailed"), _) => Self::QuotaInvalid,
            (("Unknown", "PendingEvaluation"), _) => Self::QuotaOpen,
            (_, "ImageUnavailable") => Self::NoImage,
            (_, "InstanceCrashing") => Self::Crashing,
            (_, "ConfigurationError") => Self::Misconfigured,
            (_, "PendingProgramming" | "ProgrammingInProgress") if !gated => Self::Starting,
            _ => Self::Pending(ready.map(|ready| ready.reason).unwrap_or_default()),
        }
    }

    /// The word.
    pub(crate) const fn word(self) -> InstanceWord {
        match self {
            Self::Terminating => InstanceWord::Terminating,
            Self::Available => InstanceWord::Available,
            Self::QuotaExceeded | Self::QuotaInvalid | Self::QuotaOpen | Self::Pending(_) => {
                InstanceWord::Pending
            }
            Self::NoImage | Self::Crashing | Self::Misconfigured => InstanceWord::Failed,
            Self::Starting => InstanceWord::Starting,
        }
    }

    /// The text in lists, which begins with the word.
    pub(crate) fn listed(self) -> String {
        let text = match self {
            Self::Terminating => "Terminating",
            Self::Available => "Available",
            Self::QuotaExceeded => "Pending (quota exceeded)",
            Self::QuotaInvalid => "Pending (quota validation failed)",
            Self::QuotaOpen => "Pending (quota evaluation)",
            Self::NoImage => "Failed (image unavailable)",
            Self::Crashing => "Failed (crashing)",
            Self::Misconfigured => "Failed (configuration error)",
            Self::Starting => "Starting",
            Self::Pending("") => "Pending",
            Self::Pending(reason) => return format!("Pending ({reason})"),
        };
        text.to_owned()
    }

    /// The text in descriptions.
    pub(crate) fn described(self, instance: &Object) -> String {
        let text = match self {
            Self::Terminating => {
                let finalizers = instance.list("/metadata/finalizers").iter();
                let finalizers: Vec<&str> = finalizers.filter_map(|finalizer| finalizer.as_str()).collect();
                if finalizers.is_empty() {
                    return "Terminating".to_owned();
                }
                return format!("Terminating, held by {}", finalizers.join(", "));
            }
            Self::Available => "Available",
            Self::QuotaExceeded => "Not available - quota exceeded",
            Self::QuotaInvalid => "Not available - quota validation failed",
            Self::QuotaOpen => "Pending - quota evaluation",
            Self::NoImage => "Not available - image unavailable",
            Self::Crashing => "Not available - instance crashing",
            Self::Misconfigured => "Not available - configuration error",
            Self::Starting => "Starting",
            Self::Pending("") => "Pending",
            Self::Pending(reason) => return format!("Pending - {reason}"),
        };
        text.to_owned()
    }

    /// The message of the condition that makes the state.
    pub(crate) fn message(self, instance: &'a Object) -> &'a str {
        let type_ = match self {
            Self::QuotaExceeded | Self::QuotaInvalid | Self::QuotaOpen => QUOTA_GRANTED,
            Self::NoImage | Self::Crashing | Self::Misconfigured | Self::Starting => PROGRAMMED,
            Self::Terminating | Self::Available | Self::Pending(_) => READY,
        };
        instance.condition(type_).map(|c| c.message).unwrap_or_default()
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
        let huge = Counts {
            ready: i64::MIN,
            desired: i64::MAX,
            updated: i64::MAX,
            replicas: 0,
        };
        assert_eq!(
            of("True", "X", huge),
            format!("Degraded - {} instances below desired count", i64::MAX)
        );
        let leaving = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
        let leaving = object(&[("Available", "True", "X")], &leaving);
        assert_eq!(Health::of(&leaving, counts(2, 2)).to_string(), "Deleting");
    }

    #[test]
    fn each_row_of_the_table_of_instances() {
        let of = |conditions: &[(&str, &str, &str)], more: Value| {
            let instance = object(conditions, &more);
            let state = InstanceState::of(&instance);
            (state.listed(), state.described(&instance))
        };
        let texts = |listed: &str, described: &str| (listed.to_owned(), described.to_owned());
        let none = || json!({});
        let gated = || json!({"spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}});
        let rows = [
            (("Ready", "True", "X"), "Available", "Available"),
            (
                ("QuotaGranted", "False", "QuotaExceeded"),
                "Pending (quota exceeded)",
                "Not available - quota exceeded",
            ),
            (
                ("QuotaGranted", "False", "ValidationFailed"),
                "Pending (quota validation failed)",
                "Not available - quota validation failed",
            ),
            (
                ("QuotaGranted", "Unknown", "PendingEvaluation"),
                "Pending (quota evaluation)",
                "Pending - quota evaluation",
            ),
            (
                ("Programmed", "False", "ImageUnavailable"),
                "Failed (image unavailable)",
                "Not available - image unavailable",
            ),
            (
                ("Programmed", "Unknown", "InstanceCrashing"),
                "Failed (crashing)",
                "Not available - instance crashing",
            ),
            (
                ("Programmed", "False", "ConfigurationError"),
                "Failed (configuration error)",
                "Not available - configuration error",
            ),
            (
                ("Programmed", "Unknown", "ProgrammingInProgress"),
                "Starting",
                "Starting",
            ),
            (
                ("Programmed", "Unknown", "PendingProgramming"),
                "Starting",
                "Starting",
            ),
            (
                ("Ready", "False", "SomethingNew"),
                "Pending (SomethingNew)",
                "Pending - SomethingNew",
            ),
        ];
        for (condition, listed, described) in rows {
            assert_eq!(of(&[condition], none()), texts(listed, described));
        }
        let gate = [
            ("Programmed", "Unknown", "PendingProgramming"),
            ("Ready", "False", "SchedulingGatesPresent"),
        ];
        assert_eq!(
            of(&gate, gated()),
            texts(
                "Pending (SchedulingGatesPresent)",
                "Pending - SchedulingGatesPresent"
            )
        );
        assert_eq!(of(&[], none()), texts("Pending", "Pending"));
        let leaving =
            json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["a/b"]}});
        assert_eq!(
            of(&[("Ready", "True", "X")], leaving),
            texts("Terminating", "Terminating, held by a/b")
        );
    }
}
