//! Conditions, and the status of a binding.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A condition without its transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// `Scheduled`, `FullyApplied` or `Ready`.
    pub(super) type_: String,
    /// `True` or `False`.
    pub(super) status: String,
    /// A word in `CamelCase`.
    pub(super) reason: String,
    /// Text for users.
    pub(super) message: String,
}

impl Condition {
    /// Creates a condition.
    pub(super) fn new(type_: &str, holds: bool, reason: &str, message: &str) -> Self {
        Self {
            type_: type_.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The list with this condition set; the transition time changes only with the status.
    pub(super) fn set_in(&self, conditions: &Value, now: &str) -> Value {
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
pub(super) fn is_true(conditions: &Value, type_: &str) -> bool {
    let list = conditions.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .any(|condition| condition["type"] == type_ && condition["status"] == "True")
}

/// Progress of the delivery to one member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Applied {
    /// Not tried yet.
    #[default]
    Pending,
    /// Done.
    Done,
    /// Rejected or failed, with the reason.
    Failed(String),
}

/// The delivery state of a binding at one member.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Share {
    /// The member.
    pub(super) member: String,
    /// Progress of the delivery.
    pub(super) applied: Applied,
    /// The reflected status, if any.
    pub(super) status: Option<Value>,
    /// `Healthy`, `Unhealthy` or `Unknown`, once the status was reflected.
    pub(super) health: Option<&'static str>,
}

/// `status.aggregatedStatus`: one item per member, sorted by its name. False and empty fields are omitted where Karmada
/// omits them.
pub(super) fn items(shares: &[Share]) -> Vec<Value> {
    let mut shares: Vec<&Share> = shares.iter().collect();
    shares.sort_by(|a, b| a.member.cmp(&b.member));
    shares
        .into_iter()
        .map(|share| {
            let mut item = json!({"clusterName": share.member, "health": "Unknown"});
            match &share.applied {
                Applied::Pending => {}
                Applied::Failed(message) => item["appliedMessage"] = json!(message),
                Applied::Done => {
                    item["applied"] = json!(true);
                    item["health"] = json!(share.health.unwrap_or("Unknown"));
                    if let Some(status) = &share.status {
                        item["status"] = status.clone();
                    }
                }
            }
            item
        })
        .collect()
}

/// The condition `FullyApplied`: every target has an item, and each is applied.
pub(super) fn fully_applied(targets: &BTreeSet<String>, items: &[Value]) -> Condition {
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
    fn items_are_sorted_and_say_what_karmada_says() {
        let done = Share {
            member: "b".to_owned(),
            applied: Applied::Done,
            status: Some(json!({"replicas": 1})),
            health: Some("Healthy"),
        };
        let failed = Share {
            member: "a".to_owned(),
            applied: Applied::Failed("no".to_owned()),
            status: Some(json!({"replicas": 7})),
            health: Some("Healthy"),
        };
        let items = items(&[done, failed]);
        assert_eq!(
            json!(items),
            json!([
                {"clusterName": "a", "appliedMessage": "no", "health": "Unknown"},
                {"clusterName": "b", "applied": true, "health": "Healthy", "status": {"replicas": 1}},
            ])
        );
        assert_eq!(
            fully_applied(&["a".to_owned(), "b".to_owned()].into(), &items).status,
            "False"
        );
        assert_eq!(
            fully_applied(&["b".to_owned()].into(), &items[1..]).status,
            "True"
        );
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
