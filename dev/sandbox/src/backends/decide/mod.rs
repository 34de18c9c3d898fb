//! The backends' decisions, as pure functions.

pub(super) mod network;
pub(super) mod quota;

use super::store::Kind;
use crate::conditions::{self, Said};
use fedgate_karmada::{Object, list};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A write to the API server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    /// Create an object that does not exist.
    Create {
        /// Its kind.
        kind: Kind,
        /// The whole object.
        object: Value,
    },
    /// Merge into the status of an object, if its resourceVersion is still current.
    Status {
        /// Its kind.
        kind: Kind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The status fields, and the resourceVersion that the decision is based on.
        patch: Value,
    },
}

/// The write that sets these conditions and `fields` in an object's status; `None` if the status is up to date.
fn say(
    kind: Kind,
    object: &Value,
    said: &[Said<'_>],
    fields: Map<String, Value>,
    now: Timestamp,
) -> Option<Act> {
    let old = &object["status"];
    let before = conditions::of(object);
    let after = said.iter().fold(before.clone(), |list, said| {
        conditions::with(list, *said, object["metadata"]["generation"].as_i64(), now)
    });
    if before == after && fields.iter().all(|(name, value)| old[name] == *value) {
        return None;
    }
    let mut status = fields;
    status.insert("conditions".to_owned(), json!(after));
    Some(Act::Status {
        kind,
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        patch: json!({
            "metadata": {"resourceVersion": object["metadata"]["resourceVersion"]},
            "status": status,
        }),
    })
}

/// Status and reason of a condition, if it exists.
fn condition<'a>(object: &'a Value, type_: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = list(&object["status"]["conditions"]).iter();
    let found = conditions.find(|condition| condition["type"] == type_)?;
    Some((found["status"].as_str()?, found["reason"].as_str()?))
}

/// True if an object is Ready and is not being deleted.
fn is_ready(object: &Value) -> bool {
    !object.is_deleting() && condition(object, "Ready").is_some_and(|(status, _)| status == "True")
}
