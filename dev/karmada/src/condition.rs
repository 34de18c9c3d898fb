//! Conditions.

use crate::list;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A condition without its transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// E.g. `Scheduled`, `FullyApplied` or `Ready`.
    pub type_: String,
    /// `True` or `False`.
    pub status: String,
    /// A word in `CamelCase`.
    pub reason: String,
    /// Text for users.
    pub message: String,
}

impl Condition {
    /// Creates a condition.
    pub fn new(type_: &str, holds: bool, reason: &str, message: &str) -> Self {
        Self {
            type_: type_.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The list with this condition set; the transition time changes only with the status.
    pub fn set_in(&self, conditions: &Value, now: &str) -> Value {
        let mut list = conditions.as_array().cloned().unwrap_or_default();
        let mut this = json!({
            "type": self.type_,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": now,
        });
        match list
            .iter_mut()
            .find(|condition| condition["type"] == self.type_.as_str())
        {
            Some(old) => {
                if old["status"] == self.status.as_str() && old["lastTransitionTime"].is_string() {
                    this["lastTransitionTime"] = old["lastTransitionTime"].take();
                }
                *old = this;
            }
            None => list.push(this),
        }
        Value::Array(list)
    }
}

/// True if the condition of this type is True.
pub fn is_true(conditions: &Value, type_: &str) -> bool {
    list(conditions)
        .iter()
        .any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// The condition `FullyApplied`: every target has an item, and each is applied.
pub fn fully_applied(targets: &BTreeSet<String>, items: &[Value]) -> Condition {
    let holds = !targets.is_empty()
        && targets.len() == items.len()
        && items.iter().all(|item| {
            item["applied"] == true
                && item["clusterName"]
                    .as_str()
                    .is_some_and(|name| targets.contains(name))
        });
    let (reason, message) = if holds {
        ("FullyAppliedSuccess", "All works have been successfully applied")
    } else {
        (
            "FullyAppliedFailed",
            "Failed to apply all works, see status.aggregatedStatus for details",
        )
    };
    Condition::new("FullyApplied", holds, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_applied_once_each_target_reports_so() {
        let item = |name: &str, applied: bool| json!({"clusterName": name, "applied": applied});
        let both = ["a".to_owned(), "b".to_owned()].into();
        let status = |items: &[Value]| fully_applied(&both, items).status;
        assert_eq!(status(&[item("a", true), item("b", true)]), "True");
        assert_eq!(status(&[item("a", true), item("b", false)]), "False");
        assert_eq!(status(&[item("a", true), item("c", true)]), "False");
        assert_eq!(status(&[item("a", true)]), "False");
        assert_eq!(fully_applied(&BTreeSet::new(), &[]).status, "False");
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let first = Condition::new("Ready", true, "A", "a").set_in(&Value::Null, "t1");
        let same = Condition::new("Ready", true, "B", "b").set_in(&first, "t2");
        assert_eq!(same[0]["lastTransitionTime"], "t1");
        assert_eq!(same[0]["reason"], "B");
        let turned = Condition::new("Ready", false, "C", "c").set_in(&same, "t3");
        assert_eq!(turned[0]["lastTransitionTime"], "t3");
        assert!(!is_true(&turned, "Ready") && is_true(&first, "Ready"));
    }
}
