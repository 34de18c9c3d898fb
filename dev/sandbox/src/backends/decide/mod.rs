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
pub(super) struct Act {
    /// The kind of the object.
    pub(super) kind: Kind,
    /// The whole object to create; or its identity and status, which are merged if its resourceVersion is still current.
    pub(super) object: Value,
    /// True if the object exists and its status is written.
    pub(super) is_status: bool,
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
    let before = &old["conditions"];
    let after = said
        .iter()
        .fold(before.clone(), |list, said| conditions::with(&list, *said, now));
    if *before == after && fields.iter().all(|(name, value)| old[name] == *value) {
        return None;
    }
    let mut status = fields;
    status.insert("conditions".to_owned(), after);
    let metadata = json!({"namespace": object.namespace(), "name": object.name(),
        "resourceVersion": object["metadata"]["resourceVersion"]});
    Some(Act {
        kind,
        object: json!({"metadata": metadata, "status": status}),
        is_status: true,
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
