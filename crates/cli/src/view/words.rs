//! The words for a Workload's health and an Instance's state (contract: cli.md §4). The first match wins.

use super::{Condition, Counts, Object};
use fedgate_api::conditions::types::{AVAILABLE, PROGRAMMED, QUOTA_GRANTED, READY};
use fedgate_terminal::style::Tone;
use std::fmt;

fedgate_api::words! {
    /// The health of a Workload, for filters and footers.
    #[derive(clap::ValueEnum)]
    #[value(rename_all = "PascalCase")]
    pub(crate) enum HealthWord {
        /// All placements have their Instances.
        Available = "Available",
        /// A new template is being rolled out.
        Progressing = "Progressing",
        /// Instances are missing.
        Degraded = "Degraded",
        /// No Instance is ready.
        Unavailable = "Unavailable",
        /// No cell has reported.
        Unknown = "Unknown",
        /// The Workload is being deleted.
        Deleting = "Deleting",
    }
}

impl HealthWord {
    /// The tone of the word.
    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::Available => Tone::Good,
            Self::Progressing | Self::Degraded => Tone::Busy,
            Self::Unavailable => Tone::Bad,
            Self::Unknown => Tone::Dim,
            Self::Deleting => Tone::Plain,
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
        f.write_str(self.word.as_str())?;
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
                let (updated, desired) = (counts.updated, counts.desired);
                if updated < desired {
                    let text = format!("{updated} of {desired} instances up to date");
                    health(HealthWord::Progressing, &text)
                } else if counts.ready < desired {
                    let lacking = desired.saturating_sub(counts.ready);
                    let text = format!("{lacking} instances below desired count");
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
    /// The Instance serves.
    Available,
    /// The Instance waits.
    Pending,
    /// The Instance starts.
    Starting,
    /// The Instance cannot start.
    Failed,
    /// The Instance is being deleted.
    Terminating,
}

impl InstanceWord {
    /// The tone of the word.
    pub(crate) const fn tone(self) -> Tone {
        match self {
            Self::Available => Tone::Good,
            Self::Pending | Self::Starting => Tone::Busy,
            Self::Failed => Tone::Bad,
            Self::Terminating => Tone::Plain,
        }
    }
}

/// The state of an Instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstanceState<'a> {
    /// The word.
    pub(crate) word: InstanceWord,
    /// The text in lists, which begins with the word.
    pub(crate) listed: String,
    /// The text in descriptions.
    pub(crate) described: String,
    /// The message of the condition that makes the state.
    pub(crate) message: &'a str,
    /// True if the request for quota was refused.
    pub(crate) lacks_quota: bool,
}

/// The rows of the contract's table that a condition makes by its reason: its type, the reason, and the text of descriptions. Lists
/// say the same without the word "instance".
const ROWS: [(&str, &str, &str); 6] = [
    (QUOTA_GRANTED, "QuotaExceeded", "quota exceeded"),
    (QUOTA_GRANTED, "ValidationFailed", "quota validation failed"),
    (QUOTA_GRANTED, "PendingEvaluation", "quota evaluation"),
    (PROGRAMMED, "ImageUnavailable", "image unavailable"),
    (PROGRAMMED, "InstanceCrashing", "instance crashing"),
    (PROGRAMMED, "ConfigurationError", "configuration error"),
];

impl<'a> InstanceState<'a> {
    /// The state of an Instance.
    pub(crate) fn of(instance: &'a Object) -> Self {
        let state = |word, listed: String, described: String, type_: &str| Self {
            word,
            listed,
            described,
            message: instance.condition(type_).map(|c| c.message).unwrap_or_default(),
            lacks_quota: false,
        };
        let said = |word, text: &str, type_: &str| state(word, text.to_owned(), text.to_owned(), type_);
        if instance.is_deleting() {
            let finalizers = instance.list("/metadata/finalizers").iter();
            let finalizers: Vec<&str> = finalizers.filter_map(|finalizer| finalizer.as_str()).collect();
            let held = if finalizers.is_empty() { "" } else { ", held by " };
            return Self {
                described: format!("Terminating{held}{}", finalizers.join(", ")),
                ..said(InstanceWord::Terminating, "Terminating", READY)
            };
        }
        let ready = instance.condition(READY);
        if ready.is_some_and(|ready| ready.holds()) {
            return said(InstanceWord::Available, "Available", READY);
        }
        for (type_, reason, text) in ROWS {
            let is_open = |found: &Condition<'_>| found.reason == reason && !found.holds();
            let Some(found) = instance.condition(type_).filter(is_open) else {
                continue;
            };
            let is_evaluated = reason != "PendingEvaluation";
            let lacks_quota = type_ == QUOTA_GRANTED && is_evaluated;
            let (word, name) = match (type_, found.status) {
                (QUOTA_GRANTED, "False") if is_evaluated => (InstanceWord::Pending, "Pending"),
                (QUOTA_GRANTED, "Unknown") if !is_evaluated => (InstanceWord::Pending, "Pending"),
                (QUOTA_GRANTED, _) => continue,
                _ => (InstanceWord::Failed, "Failed"),
            };
            let refusal = if is_evaluated { "Not available" } else { "Pending" };
            let listed = format!("{name} ({})", text.trim_start_matches("instance "));
            return Self {
                lacks_quota,
                ..state(word, listed, format!("{refusal} - {text}"), type_)
            };
        }
        let programmed = instance
            .condition(PROGRAMMED)
            .filter(|programmed| !programmed.holds());
        let programmed = programmed.map(|programmed| programmed.reason);
        let is_gated = !instance.list("/spec/controller/schedulingGates").is_empty();
        if matches!(programmed, Some("PendingProgramming" | "ProgrammingInProgress")) && !is_gated {
            return said(InstanceWord::Starting, "Starting", PROGRAMMED);
        }
        match ready.map(|ready| ready.reason).unwrap_or_default() {
            "" => said(InstanceWord::Pending, "Pending", READY),
            reason => {
                let (listed, described) = (format!("Pending ({reason})"), format!("Pending - {reason}"));
                state(InstanceWord::Pending, listed, described, READY)
            }
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
            (state.listed, state.described)
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
