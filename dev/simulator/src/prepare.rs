//! What the server does to an object before it is kept: unknown fields go, missing ones come, and what each kind does
//! of itself.

use crate::{
    base64,
    definition::{Definition, Version},
    meta,
    status::{Status, Subject},
};
use serde_json::{Map, Value, json};

/// Brings an object that was sent into the form in which it is kept.
pub(crate) fn prepare(definition: &Definition, version: &Version, object: &mut Value) {
    if &*definition.kind == "Secret" {
        encode_texts(object);
    }
    version.schema.prune(object);
    version.schema.fill(object);
    drop_empty(definition, object);
    if is_namespace(definition) {
        let name = meta::name(object).to_owned();
        let mut labels = meta::labels(object).cloned().unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
        meta::set(object, "labels", Value::Object(labels));
    }
}

/// Empty maps and lists of `metadata`, and of a built-in kind, are as good as none.
fn drop_empty(definition: &Definition, object: &mut Value) {
    let is_empty = |value: &Value| {
        value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
    };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !is_empty(value));
    }
    if !definition.custom {
        for key in ["data", "binaryData"] {
            if object.get(key).is_some_and(is_empty) {
                meta::put(object, key, Value::Null);
            }
        }
    }
}

/// Fields that a built-in kind always has, with what they are when nobody sets them.
fn always_there(definition: &Definition) -> &'static [(&'static str, &'static str)] {
    match (&*definition.group, &*definition.plural) {
        ("", "events") => &[
            ("source", "{}"),
            ("reportingComponent", "\"\""),
            ("reportingInstance", "\"\""),
        ],
        ("events.k8s.io", "events") => &[("deprecatedSource", "{}")],
        _ => &[],
    }
}

/// Whether a replacement may bring an object that is not there.
pub(crate) fn comes_by_update(definition: &Definition) -> bool {
    !definition.custom && ["leases", "events"].contains(&&*definition.plural)
}

/// Whether a replacement must say which version it replaces.
pub(crate) fn needs_version(definition: &Definition) -> bool {
    definition.custom || &*definition.plural == "leases"
}

/// Takes away what a writer cannot say of a new object.
pub(crate) fn forget(object: &mut Value) {
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generation",
    ] {
        meta::set(object, key, Value::Null);
    }
}

/// What there is before an object comes. Built-in kinds always have a spec.
pub(crate) fn empty(definition: &Definition, version: &Version) -> Value {
    let mut empty = json!({"apiVersion": version.full_name, "kind": &*definition.kind});
    if !definition.custom && version.schema.field("spec").is_some() {
        empty["spec"] = json!({});
    }
    empty
}

/// Namespaces have a life of their own.
pub(crate) fn is_namespace(definition: &Definition) -> bool {
    definition.group.is_empty() && &*definition.plural == "namespaces"
}

/// Whether an object may have this name. Roles and their bindings may have any that is one segment of a path.
pub(crate) fn may_be_called(definition: &Definition, name: &str) -> bool {
    if &*definition.group == "rbac.authorization.k8s.io" {
        return ![".", ".."].contains(&name) && !name.contains(['/', '%']);
    }
    meta::is_valid_name(name)
}

/// `stringData` of a Secret is written into `data`.
fn encode_texts(object: &mut Value) {
    let Some(texts) = object
        .as_object_mut()
        .and_then(|object| object.remove("stringData"))
    else {
        return;
    };
    let mut data = object["data"].as_object().cloned().unwrap_or_default();
    for (key, text) in texts.as_object().into_iter().flatten() {
        let bytes = text.as_str().unwrap_or_default().as_bytes();
        data.insert(key.clone(), json!(base64::encode(bytes)));
    }
    meta::put(object, "data", Value::Object(data));
}

/// What a new object has from the server.
pub(crate) fn on_create(
    definition: &Definition,
    version: &Version,
    object: &mut Value,
    uid: &str,
    now: &str,
) {
    meta::set(object, "uid", json!(uid));
    meta::set(object, "creationTimestamp", json!(now));
    if version.status {
        meta::put(object, "status", Value::Null);
    }
    if definition.custom {
        meta::set(object, "generation", json!(1));
    }
    for (field, zero) in always_there(definition) {
        if object.get(*field).is_none() {
            meta::put(object, field, zero.parse().unwrap_or_default());
        }
    }
    if is_namespace(definition) {
        meta::put(object, "spec", json!({"finalizers": ["kubernetes"]}));
        meta::put(object, "status", json!({"phase": "Active"}));
    }
}

/// The endpoint through which an object is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The object itself.
    Main,
    /// `status`.
    Status,
    /// `finalize` of a Namespace: its `spec.finalizers`.
    Finalize,
}

/// Puts back what this endpoint does not change.
pub(crate) fn on_update(
    definition: &Definition,
    version: &Version,
    old: &Value,
    new: &mut Value,
    endpoint: Endpoint,
) {
    match endpoint {
        Endpoint::Main => {
            if version.status {
                meta::put(new, "status", old["status"].clone());
            }
            if is_namespace(definition) {
                meta::put(new, "spec", old["spec"].clone());
            }
        }
        Endpoint::Status | Endpoint::Finalize => {
            let part = if endpoint == Endpoint::Status {
                "status"
            } else {
                "spec"
            };
            let sent = new[part].take();
            *new = old.clone();
            meta::put(new, part, sent);
        }
    }
    for key in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generation",
    ] {
        meta::set(new, key, old["metadata"][key].clone());
    }
}

/// Counts a change that is more than metadata and status.
pub(crate) fn count_generation(definition: &Definition, version: &Version, old: &Value, new: &mut Value) {
    if definition.custom && differs(old, new, version.status) {
        let generation = old["metadata"]["generation"].as_u64().unwrap_or(0) + 1;
        meta::set(new, "generation", json!(generation));
    }
}

/// Whether two versions differ in more than metadata, and status where that is apart.
fn differs(old: &Value, new: &Value, status: bool) -> bool {
    let counts = |(key, _): &(&String, &Value)| *key != "metadata" && !(status && *key == "status");
    match (old.as_object(), new.as_object()) {
        (Some(old), Some(new)) => !old.iter().filter(counts).eq(new.iter().filter(counts)),
        _ => true,
    }
}

/// Whether the new version of an object may replace the old one.
pub(crate) fn check_update(
    definition: &Definition,
    subject: &Subject<'_>,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    let before = meta::list(old, "finalizers");
    let added = |finalizer: &&Value| !before.contains(finalizer);
    if meta::is_ending(old) && meta::list(new, "finalizers").iter().any(|f| added(&f)) {
        let message = "Forbidden: no new finalizers can be added if the object is being deleted";
        let cause = ("FieldValueForbidden", "metadata.finalizers", message);
        return Err(Status::invalid(&definition.kind, subject, &[cause]));
    }
    Ok(())
}
