//! Conditions of Projects, as their controller writes them.

use jiff::Timestamp;
use serde_json::{Value, json};

/// A condition's type, status, reason and message.
pub(super) type Said<'a> = (&'a str, bool, &'a str, &'a str);

/// The list after the condition was said; the time moves only if its status changes. `None` if nothing does.
pub(super) fn with(conditions: &Value, said: Said<'_>, now: Timestamp) -> Option<Value> {
    let (kind, is_true, reason, message) = said;
    let status = if is_true { "True" } else { "False" };
    let mut list = conditions.as_array().cloned().unwrap_or_default();
    let old = list.iter().position(|of| of["type"] == kind);
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut new = json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
    });
    match old.and_then(|at| list.get_mut(at)) {
        Some(old) => {
            if old["status"] == new["status"] {
                new["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            if *old == new {
                return None;
            }
            *old = new;
        }
        None => list.push(new),
    }
    Some(Value::Array(list))
}

#[cfg(test)]
mod tests {
    use super::with;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    #[test]
    fn a_condition_that_says_the_same_is_not_written_and_keeps_its_time() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = with(&Value::Null, ("Ready", true, "Ready", "m"), at(0)).unwrap();
        assert_eq!(with(&first, ("Ready", true, "Ready", "m"), at(9)), None);
        let reason = with(&first, ("Ready", true, "Other", "m"), at(9)).unwrap();
        assert_eq!(reason[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        let status = with(&first, ("Ready", false, "Provisioning", "m"), at(9)).unwrap();
        assert_eq!(status[0]["lastTransitionTime"], "1970-01-01T00:00:09Z");
        let two = with(&first, ("Suspended", true, "Suspended", "m"), at(9)).unwrap();
        assert_eq!(
            [&two[0]["type"], &two[1]["type"]],
            [&json!("Ready"), &json!("Suspended")]
        );
    }
}
