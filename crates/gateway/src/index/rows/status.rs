//! Status digests: enough of a status to decide whether returning another status would change anything.

use crate::index::rows::{Strings, size_of};
use fedgate_api::{Reason, conditions::Serving};
use fedgate_engine::{diff::Digest, message::clean};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{ops::Deref, sync::Arc};

/// Maximum number of conditions in a status that the gateway writes.
const CONDITIONS: usize = 32;
/// Maximum number of conditions in a digest: as many as the gateway writes, plus one.
const CONDITIONS_READ: usize = CONDITIONS + 1;

/// Maximum number of characters that are kept of a message.
const SHOWN: usize = 256;

/// Digest of a status; its conditions have digests of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StatusDigest {
    /// True if the status has at least one field.
    pub reported: bool,
    /// Digest of everything but `conditions` and `observedGeneration`; absent counters count as 0.
    pub rest: Digest,
    /// `observedGeneration`.
    pub observed: Option<i64>,
    /// The conditions in order, at most one more than the gateway writes.
    pub conditions: Box<[ConditionDigest]>,
    /// Size of the status as JSON, in bytes; `u32::MAX` if the status is nested too deeply.
    pub size: u32,
}

/// Digest of a condition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionDigest {
    /// Type, status, reason and message.
    pub text: Arc<ConditionText>,
    /// `observedGeneration` of the condition.
    pub observed: Option<i64>,
    /// `lastTransitionTime` of the condition, in seconds since the epoch.
    pub since: i64,
}

/// Type, status, reason and message of a condition, shared by all objects with the same text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionText {
    /// Type of the condition.
    pub kind: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// Reason of the condition.
    pub reason: Arc<str>,
    /// Digest of its message.
    pub message: Digest,
    /// The message of a condition that is not True, for people: at most [`SHOWN`] characters.
    pub shown: Option<Arc<str>>,
}

impl Deref for ConditionDigest {
    type Target = ConditionText;

    fn deref(&self) -> &ConditionText {
        &self.text
    }
}

/// Type of the condition that says whether the hub delivers an object.
pub const FEDERATED: &str = "Federated";
/// Maximum number of characters of the message of a condition of the gateway.
const MESSAGE_LIMIT: usize = 1_024;

/// A condition that the gateway itself writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCondition {
    /// Type of the condition.
    pub kind: &'static str,
    /// True for the status `True`, false for `False`.
    pub status: bool,
    /// Reason of the condition.
    pub reason: Reason,
    /// Message of the condition, at most 1,024 characters.
    pub message: String,
    /// The generation that the condition describes.
    pub observed: i64,
}

impl OwnCondition {
    /// A condition that is true or false for this reason, with a message of at most 1,024 characters.
    pub fn new(kind: &'static str, status: bool, reason: Reason, message: &str, observed: i64) -> Self {
        Self {
            kind,
            status,
            reason,
            message: message.chars().take(MESSAGE_LIMIT).collect(),
            observed,
        }
    }

    fn truth(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }

    /// True if `had` has the same status, reason, message and generation.
    pub fn equals(&self, had: &ConditionDigest) -> bool {
        self.agrees(had) && had.observed == Some(self.observed)
    }

    /// True if `had` has the same status, reason and message; its generation may be an earlier one.
    pub fn agrees(&self, had: &ConditionDigest) -> bool {
        *had.status == *self.truth()
            && *had.reason == *self.reason.as_str()
            && had.message == Digest::of_hash(&self.message.as_str())
    }
}

impl StatusDigest {
    /// Digests a status.
    pub fn of(status: Option<&Value>, counters: &[String], words: &mut Strings) -> Self {
        let Some(status @ Value::Object(map)) = status else {
            return Self {
                rest: empty_rest(counters),
                ..Self::default()
            };
        };
        let mut rest = map.clone();
        let conditions = rest.remove("conditions");
        let observed = rest.remove("observedGeneration").and_then(|v| v.as_i64());
        fill_counters(&mut rest, counters);
        let conditions: Box<[ConditionDigest]> = conditions
            .as_ref()
            .and_then(Value::as_array)
            .map(|list| {
                let read = list.iter().take(CONDITIONS_READ);
                read.map(|c| condition_digest(c, words)).collect()
            })
            .unwrap_or_default();
        let size = size_of(status);
        Self {
            reported: !map.is_empty(),
            rest: Digest::of(&Value::Object(rest)),
            observed,
            conditions,
            size,
        }
    }

    /// Takes the gateway's own conditions from another place than the status.
    #[must_use]
    pub fn with_own(mut self, noted: &[Value], own_types: &[String], words: &mut Strings) -> Self {
        let is_own = |kind: &str| own_types.iter().any(|own| own == kind);
        let mut conditions: Vec<ConditionDigest> = self.conditions.into_vec();
        conditions.retain(|condition| !is_own(&condition.kind));
        for condition in noted.iter().take(CONDITIONS).map(|c| condition_digest(c, words)) {
            let is_first = !conditions.iter().any(|had| had.kind == condition.kind);
            if is_own(&condition.kind) && is_first {
                conditions.push(condition);
            }
        }
        self.conditions = conditions.into();
        self
    }

    /// True if the object has no status.
    pub fn is_absent(&self) -> bool {
        self.size == 0
    }

    /// True if the status has this condition of the gateway, unchanged.
    pub fn has_condition(&self, own: &OwnCondition) -> bool {
        self.condition(own.kind).is_some_and(|had| own.equals(had))
    }

    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&ConditionDigest> {
        self.conditions.iter().find(|c| &*c.kind == kind)
    }

    /// Conditions `Ready` and `Available` of the status.
    pub fn serving(&self) -> Serving {
        Serving::of_statuses(|kind| self.condition(kind).map(|had| &*had.status))
    }

    /// True if the project already has the status that `hub` returns, apart from the gateway's own conditions.
    pub fn is_returned(&self, hub: &Self, own: &[String], generation: i64) -> bool {
        let foreign = |c: &&ConditionDigest| !own.iter().any(|o| **o == *c.kind);
        let settled = |hub: Option<i64>, here: Option<i64>| match hub {
            Some(n) if n <= generation => here == Some(n),
            _ => true,
        };
        let here = self.conditions.iter().filter(foreign).count();
        // The gateway does not return conditions beyond the cap.
        let room = CONDITIONS.saturating_sub(self.conditions.len() - here);
        let wanted = || hub.conditions.iter().filter(foreign).take(room);
        self.rest == hub.rest
            && settled(hub.observed, self.observed)
            && wanted().count() == here
            && wanted().all(|c| {
                self.condition(&c.kind)
                    .is_some_and(|had| had.text == c.text && settled(c.observed, had.observed))
            })
    }
}

fn empty_rest(counters: &[String]) -> Digest {
    let mut rest = Map::new();
    fill_counters(&mut rest, counters);
    Digest::of(&Value::Object(rest))
}

fn fill_counters(status: &mut Map<String, Value>, counters: &[String]) {
    for counter in counters {
        status.entry(counter.clone()).or_insert_with(|| json!(0));
    }
}

fn condition_digest(condition: &Value, words: &mut Strings) -> ConditionDigest {
    let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
    let says = ConditionText {
        kind: words.intern(text("type")),
        status: words.intern(text("status")),
        reason: words.intern(text("reason")),
        message: Digest::of_hash(&text("message")),
        shown: (text("status") != "True" && !text("message").is_empty()).then(|| {
            let message: String = clean(text("message")).chars().take(SHOWN).collect();
            message.into()
        }),
    };
    ConditionDigest {
        text: words.condition_texts.intern_value(says),
        observed: condition.get("observedGeneration").and_then(Value::as_i64),
        since: text("lastTransitionTime")
            .parse::<Timestamp>()
            .map_or(0, Timestamp::as_second),
    }
}

/// Formats a time as Kubernetes does.
pub fn rfc3339(second: i64) -> String {
    Timestamp::from_second(second)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_string()
}

/// Renders the status to write into the project: `base` (the copy's status) with the gateway's own conditions and the
/// project's generations and transition times (contract: federation.md §3.4 step 7).
pub fn render_status(
    base: &Value,
    counters: &[String],
    own_types: &[String],
    own: &[OwnCondition],
    had: &StatusDigest,
    generation: i64,
    now: Timestamp,
) -> Value {
    let mut status = base.as_object().cloned().unwrap_or_default();
    let foreign = status
        .remove("conditions")
        .and_then(|c| c.as_array().cloned())
        .unwrap_or_default();
    let observed = status.remove("observedGeneration").and_then(|v| v.as_i64());
    if let Some(observed) = observed.filter(|n| *n <= generation).or(had.observed) {
        status.insert("observedGeneration".into(), json!(observed));
    }
    fill_counters(&mut status, counters);
    let mut conditions: Vec<Value> = foreign
        .into_iter()
        .filter(|c| {
            !own_types
                .iter()
                .any(|o| c.get("type").and_then(Value::as_str) == Some(o))
        })
        .take(CONDITIONS.saturating_sub(own.len()))
        .map(|c| merge_condition(c, had, generation))
        .collect();
    conditions.extend(own.iter().map(|c| {
        let before = had.condition(c.kind).filter(|h| *h.status == *c.truth());
        json!({
            "type": c.kind, "status": c.truth(), "reason": c.reason.as_str(), "message": c.message,
            "observedGeneration": c.observed,
            "lastTransitionTime": rfc3339(before.map_or(now.as_second(), |h| h.since)),
        })
    }));
    status.insert("conditions".into(), Value::Array(conditions));
    Value::Object(status)
}

/// Renders a status whose schema has no place for the gateway's own conditions: `base` with the project's generations.
pub fn render_foreign(
    base: &Value,
    counters: &[String],
    had: &StatusDigest,
    generation: i64,
    now: Timestamp,
) -> Value {
    let has_conditions = !base["conditions"].is_null();
    let mut status = render_status(base, counters, &[], &[], had, generation, now);
    if let Some(status) = status.as_object_mut().filter(|_| !has_conditions) {
        status.remove("conditions");
    }
    status
}

/// Gives a condition of the hub the project's observed generation and transition time.
fn merge_condition(mut condition: Value, had: &StatusDigest, generation: i64) -> Value {
    let kind = condition
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let before = had.condition(&kind);
    let Some(map) = condition.as_object_mut() else {
        return condition;
    };
    let observed = map
        .remove("observedGeneration")
        .and_then(|v| v.as_i64())
        .filter(|n| *n <= generation);
    if let Some(observed) = observed.or(before.and_then(|b| b.observed)) {
        map.insert("observedGeneration".into(), json!(observed));
    }
    let same = before.filter(|b| map.get("status").and_then(Value::as_str) == Some(&*b.status));
    if let Some(before) = same {
        map.insert("lastTransitionTime".into(), json!(rfc3339(before.since)));
    }
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(status: &Value) -> StatusDigest {
        StatusDigest::of(Some(status), &["replicas".to_owned()], &mut Strings::default())
    }

    fn condition(kind: &str, status: &str, observed: Option<i64>, time: &str) -> Value {
        let mut c = json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": time});
        if let Some(n) = observed {
            c["observedGeneration"] = json!(n);
        }
        c
    }

    const OLD: &str = "2026-01-01T00:00:00Z";
    const NEW: &str = "2026-02-02T00:00:00Z";

    #[test]
    fn what_returned_writes_counts_as_returned() {
        let own_types = vec!["Federated".to_owned()];
        let own = [OwnCondition {
            kind: "Federated",
            status: true,
            reason: Reason::Delivered,
            message: "at x".into(),
            observed: 3,
        }];
        let hub = json!({"observedGeneration": 3, "conditions": [condition("Available", "True", Some(3), NEW),
            condition("Federated", "False", None, NEW)]});
        let before = digest(&json!({"conditions": [condition("Available", "True", Some(2), OLD)]}));
        let now: Timestamp = NEW.parse().unwrap();
        let written = render_status(&hub, &["replicas".to_owned()], &own_types, &own, &before, 3, now);
        assert_eq!(written["replicas"], 0, "counters are written at zero");
        assert_eq!(
            written["conditions"].as_array().unwrap().len(),
            2,
            "the hub's Federated is dropped"
        );
        assert_eq!(
            written["conditions"][0]["lastTransitionTime"], OLD,
            "the status did not change"
        );
        assert!(!before.is_returned(&digest(&hub), &own_types, 3));
        let after = digest(&written);
        assert!(after.is_returned(&digest(&hub), &own_types, 3));
        assert!(own[0].equals(after.condition("Federated").unwrap()));
    }

    #[test]
    fn an_own_condition_is_compared_by_all_it_says_and_keeps_its_time_while_its_status_is_the_same() {
        let own = OwnCondition {
            kind: "Federated",
            status: true,
            reason: Reason::Delivered,
            message: "m".into(),
            observed: 3,
        };
        let had = |status: &str, observed| {
            let mut had = condition("Federated", status, Some(observed), OLD);
            had["reason"] = json!("Delivered");
            digest(&json!({"conditions": [had]}))
        };
        let said = |status, reason, message: &str, observed| {
            let own = OwnCondition {
                status,
                reason,
                message: message.into(),
                ..own.clone()
            };
            let had = had("True", observed);
            let had = had.condition("Federated").unwrap();
            (own.agrees(had), own.equals(had))
        };
        assert_eq!(said(true, Reason::Delivered, "m", 3), (true, true));
        assert_eq!(said(true, Reason::Delivered, "m", 2), (true, false));
        assert_eq!(said(false, Reason::Delivered, "m", 3), (false, false));
        assert_eq!(said(true, Reason::Propagating, "m", 3), (false, false));
        assert_eq!(said(true, Reason::Delivered, "other", 3), (false, false));
        let since = |status: &str| {
            let now = NEW.parse().unwrap();
            let written = render_status(
                &json!({}),
                &[],
                &[],
                std::slice::from_ref(&own),
                &had(status, 3),
                3,
                now,
            );
            written["conditions"][0]["lastTransitionTime"].clone()
        };
        assert_eq!((since("True"), since("False")), (json!(OLD), json!(NEW)));
    }

    #[test]
    fn counters_that_are_absent_are_zero_also_where_there_is_no_status() {
        let counters = ["replicas".to_owned()];
        let absent = StatusDigest::of(None, &counters, &mut Strings::default());
        assert_eq!(absent.rest, digest(&json!({})).rest);
        assert_eq!(absent.rest, digest(&json!({"replicas": 0})).rest);
        assert_ne!(absent.rest, digest(&json!({"replicas": 1})).rest);
    }

    #[test]
    fn more_conditions_than_return_count_as_returned() {
        let own_types = vec!["Federated".to_owned()];
        let own = [OwnCondition {
            kind: "Federated",
            status: true,
            reason: Reason::Delivered,
            message: "at x".into(),
            observed: 3,
        }];
        let many: Vec<Value> = (0..40)
            .map(|n| condition(&format!("C{n}"), "True", Some(3), OLD))
            .collect();
        let mut hub = json!({"replicas": 1, "conditions": many});
        let now: Timestamp = NEW.parse().unwrap();
        let written = render_status(&hub, &[], &own_types, &own, &StatusDigest::default(), 3, now);
        assert_eq!(written["conditions"].as_array().unwrap().len(), 32);
        assert!(digest(&written).is_returned(&digest(&hub), &own_types, 3));
        hub["conditions"][30]["status"] = json!("False");
        assert!(!digest(&written).is_returned(&digest(&hub), &own_types, 3));
        hub["conditions"][30]["status"] = json!("True");
        hub["conditions"][31]["status"] = json!("False");
        assert!(
            digest(&written).is_returned(&digest(&hub), &own_types, 3),
            "beyond the cap"
        );
    }

    #[test]
    fn a_generation_that_is_absent_or_ahead_keeps_what_the_project_has() {
        let had = digest(&json!({"replicas": 1, "observedGeneration": 2,
            "conditions": [condition("Available", "True", Some(2), OLD)]}));
        for observed in [None, Some(9)] {
            let mut hub =
                json!({"replicas": 1, "conditions": [condition("Available", "True", observed, NEW)]});
            if let Some(n) = observed {
                hub["observedGeneration"] = json!(n);
            }
            assert!(had.is_returned(&digest(&hub), &[], 3));
            let written = render_status(&hub, &[], &[], &[], &had, 3, NEW.parse().unwrap());
            assert_eq!(written["observedGeneration"], 2);
            assert_eq!(written["conditions"][0]["observedGeneration"], 2);
        }
    }

    #[test]
    fn no_more_conditions_are_remembered_than_can_be_returned_and_one() {
        let many: Vec<Value> = (0..1_000)
            .map(|n| condition(&format!("C{n}"), "True", None, OLD))
            .collect();
        assert_eq!(digest(&json!({"conditions": many})).conditions.len(), 33);
    }

    #[test]
    fn a_vanished_condition_or_field_is_a_difference() {
        let had = digest(
            &json!({"replicas": 1, "map": {"a": 1}, "conditions": [condition("X", "True", None, OLD)]}),
        );
        assert!(!had.is_returned(&digest(&json!({"replicas": 1, "map": {"a": 1}})), &[], 1));
        assert!(!had.is_returned(
            &digest(&json!({"replicas": 1, "conditions": [condition("X", "True", None, OLD)]})),
            &[],
            1
        ));
    }
}
