//! Reading and writing `metadata`.

use serde_json::{Map, Value, json};

/// A text of `metadata`; empty if it is not there.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub(crate) fn is_ending(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(crate) fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    let list = object["metadata"][key].as_array();
    list.map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    !list(object, "finalizers").is_empty()
}

pub(crate) fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object["metadata"]["labels"].as_object()
}

/// Sets a field of `metadata`; null takes it away.
pub(crate) fn set(object: &mut Value, key: &str, value: Value) {
    let Some(whole) = object.as_object_mut() else {
        return;
    };
    let metadata = whole.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    if let Some(metadata) = metadata.as_object_mut() {
        if value.is_null() {
            metadata.remove(key);
        } else {
            metadata.insert(key.to_owned(), value);
        }
    }
}

/// Takes a field of `metadata` out.
pub(crate) fn take(object: &mut Value, key: &str) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata
        .and_then(|metadata| metadata.remove(key))
        .unwrap_or_default()
}

/// Sets a field of the object itself; null takes it away.
pub(crate) fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(whole) = object.as_object_mut() {
        if value.is_null() {
            whole.remove(key);
        } else {
            whole.insert(key.to_owned(), value);
        }
    }
}

/// The key under which a table keeps an object: etcd's order of objects is that of these texts.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Whether a text is a valid object name: a DNS subdomain.
pub(crate) fn is_valid_name(name: &str) -> bool {
    let label = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}
