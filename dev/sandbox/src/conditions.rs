//! Conditions that stand-ins write.

use fedgate_karmada::condition::Condition;
use jiff::Timestamp;
use serde_json::Value;

/// A condition to set: type, true or false, reason, message.
pub(super) type Said<'a> = (&'a str, bool, &'a str, &'a str);

/// The list in which a condition is set; its time moves only if its status changes.
pub(super) fn with(list: &Value, (kind, holds, reason, message): Said<'_>, now: Timestamp) -> Value {
    Condition::new(kind, holds, reason, message).set_in(list, &time(now))
}

/// A time as objects have it.
pub(super) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
