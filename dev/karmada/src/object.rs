//! The fields of an object that Karmada's decisions read.

use serde_json::{Map, Value};

/// An object of any kind, as JSON. Texts are empty where the object has none.
pub trait Object {
    /// Group and version.
    fn api_version(&self) -> &str;
    /// Kind.
    fn kind(&self) -> &str;
    /// Namespace; empty if the object is cluster-scoped.
    fn namespace(&self) -> &str;
    /// Name.
    fn name(&self) -> &str;
    /// UID.
    fn uid(&self) -> &str;
    /// A label; `None` if the object does not have it.
    fn label(&self, key: &str) -> Option<&str>;
    /// An annotation; `None` if the object does not have it.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// The finalizers.
    fn finalizers(&self) -> &[Value];
    /// True if the object is being deleted.
    fn is_deleting(&self) -> bool;
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Object for Value {
    fn api_version(&self) -> &str {
        text(&self["apiVersion"])
    }

    fn kind(&self) -> &str {
        text(&self["kind"])
    }

    fn namespace(&self) -> &str {
        text(&self["metadata"]["namespace"])
    }

    fn name(&self) -> &str {
        text(&self["metadata"]["name"])
    }

    fn uid(&self) -> &str {
        text(&self["metadata"]["uid"])
    }

    fn label(&self, key: &str) -> Option<&str> {
        self["metadata"]["labels"][key].as_str()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self["metadata"]["annotations"][key].as_str()
    }

    fn finalizers(&self) -> &[Value] {
        list(&self["metadata"]["finalizers"])
    }

    fn is_deleting(&self) -> bool {
        !self["metadata"]["deletionTimestamp"].is_null()
    }
}

/// The items of a list; none if the value is no list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Applies a JSON merge patch.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, change) in changes {
        match (change, target.as_object_mut()) {
            (Value::Null, Some(fields)) => drop(fields.remove(key)),
            _ => merge(&mut target[key], change),
        }
    }
}
