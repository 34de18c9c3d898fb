//! Conditions that stand-ins write.

use fedgate_api::conditions::{Condition, ConditionStatus, set};
use jiff::Timestamp;
use serde_json::Value;

/// A condition to set: type, true or false, reason, message.
pub(super) type Said<'a> = (&'a str, bool, &'a str, &'a str);

/// The conditions of an object.
pub(super) fn of(object: &Value) -> Vec<Condition> {
    serde_json::from_value(object["status"]["conditions"].clone()).unwrap_or_default()
}

/// The list in which a condition is set; its time moves only if its status changes.
pub(super) fn with(
    mut list: Vec<Condition>,
    (kind, is_true, reason, message): Said<'_>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let status = if is_true {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    let new = Condition::new(kind, status, reason, message, now);
    set(&mut list, new.observed(generation));
    list
}

#[cfg(test)]
mod tests {
    use super::with;
    use jiff::Timestamp;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = with(Vec::new(), ("Ready", true, "Ready", "m"), None, at(0));
        assert_eq!(
            with(first.clone(), ("Ready", true, "Ready", "m"), None, at(9)),
            first
        );
        let reason = with(first.clone(), ("Ready", true, "Other", "m"), None, at(9));
        assert_eq!(reason[0].last_transition_time.0, at(0));
        let status = with(first.clone(), ("Ready", false, "Provisioning", "m"), None, at(9));
        assert_eq!(status[0].last_transition_time.0, at(9));
        let two = with(first, ("Suspended", true, "Suspended", "m"), None, at(9));
        let kinds: Vec<&str> = two.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(kinds, ["Ready", "Suspended"]);
    }
}
