//! The backends' decisions, as pure functions.

pub(super) mod network;
pub(super) mod quota;

use super::store::Kind;
use crate::conditions::{self, Said};
use jiff::Timestamp;
use kube::api::DynamicObject;
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
        /// The resourceVersion that the decision is based on.
        version: Option<String>,
        /// The status fields to merge.
        status: Value,
    },
}

/// The write that sets these conditions and `fields` in an object's status; `None` if the status is up to date.
fn say(
    kind: Kind,
    object: &DynamicObject,
    said: &[Said<'_>],
    fields: Map<String, Value>,
    now: Timestamp,
) -> Option<Act> {
    let old = &object.data["status"];
    let before = conditions::of(object);
    let after = said.iter().fold(before.clone(), |list, said| {
        conditions::with(list, *said, object.metadata.generation, now)
    });
    if before == after && fields.iter().all(|(name, value)| old[name] == *value) {
        return None;
    }
    let mut status = fields;
    status.insert("conditions".to_owned(), json!(after));
    let (namespace, name) = address(object);
    Some(Act::Status {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version: object.metadata.resource_version.clone(),
        status: Value::Object(status),
    })
}

/// Status and reason of a condition, if it exists.
fn condition<'a>(object: &'a DynamicObject, type_: &str) -> Option<(&'a str, &'a str)> {
    let list = object.data["status"]["conditions"].as_array()?;
    let found = list.iter().find(|condition| condition["type"] == type_)?;
    Some((found["status"].as_str()?, found["reason"].as_str()?))
}

/// True if an object is Ready and is not being deleted.
fn is_ready(object: &DynamicObject) -> bool {
    !is_going(object) && condition(object, "Ready").is_some_and(|(status, _)| status == "True")
}

fn is_going(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// Namespace and name.
fn address(object: &DynamicObject) -> (&str, &str) {
    let meta = &object.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}
