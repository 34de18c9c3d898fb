//! The part of a `ResourceInterpreterCustomization` that concerns the status.

use serde_json::Value;
use std::fmt;

/// Reads statuses as the scripts of a kind do.
pub trait Interpreter: Send + Sync {
    /// The status that a member reports of an object; null for none.
    fn reflect(&self, observed: &Value) -> Value;

    /// The status of a template by the items of its members; null leaves the status that it has.
    fn aggregate(&self, template: &Value, items: &[Value]) -> Value;
}

impl fmt::Debug for dyn Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interpreter")
    }
}

/// Key that fedgate's scripts add to the reported status of an object that lives at one member: its UID there.
const UID: &str = "fedgate.dev/uid-at-member";
/// Key beside it: the time since which the object is being deleted there.
const DELETED: &str = "fedgate.dev/deleted-at-member";

/// Takes the status of the only member over, as the scripts of a kind at one member do.
pub(super) struct TakeOver;

impl Interpreter for TakeOver {
    fn reflect(&self, observed: &Value) -> Value {
        let mut status = observed["status"].clone();
        status[UID] = observed["metadata"]["uid"].clone();
        if let Some(deleted) = observed["metadata"].get("deletionTimestamp") {
            status[DELETED] = deleted.clone();
        }
        status
    }

    fn aggregate(&self, _: &Value, items: &[Value]) -> Value {
        let [item] = items else { return Value::Null };
        let mut status = item["status"].clone();
        if let Some(fields) = status.as_object_mut() {
            fields.remove(UID);
            fields.remove(DELETED);
        }
        if status.as_object().is_none_or(serde_json::Map::is_empty) {
            return Value::Null;
        }
        status
    }
}
