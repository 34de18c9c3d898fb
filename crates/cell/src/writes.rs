//! Writes and Events in the forms that the cell's controllers use.

use crate::reason::WriteReason;
use fedgate_api::{API_VERSION, keys};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Endpoint, Event, ObjectRef, Target, Write},
    store::table::Row,
};
use kube::core::DynamicObject;
use serde_json::{Value, json};

/// Label of every Pod, Service and `NetworkPolicy` of the provider.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "fedgate");

/// A merge patch that fails unless the object still has the version of its row. A patch of the status goes to its endpoint.
pub fn patch<D>(row: &Row<D>, target: Target, mut patch: Value, reason: WriteReason) -> Effect {
    let endpoint = if patch["status"].is_null() {
        Endpoint::Main
    } else {
        Endpoint::Status
    };
    patch["metadata"]["uid"] = json!(*row.uid);
    patch["metadata"]["resourceVersion"] = json!(row.resource_version());
    Effect {
        endpoint,
        ..Effect::main(target, Write::Merge { patch }, reason)
    }
}

/// A merge patch of the labels of the object with this UID.
pub fn patch_labels(target: Target, uid: &str, labels: &Value, reason: WriteReason) -> Effect {
    let patch = json!({"metadata": {"uid": uid, "labels": labels}});
    Effect::main(target, Write::Merge { patch }, reason)
}

/// The deletion of the object with this UID, if it still has the resourceVersion that is given.
pub fn delete(target: Target, uid: &str, resource_version: Option<String>, reason: WriteReason) -> Effect {
    let uid = uid.to_owned();
    Effect::main(
        target,
        Write::Delete {
            uid,
            resource_version,
        },
        reason,
    )
}

/// The creation of an object.
pub fn create(target: Target, body: Value, reason: WriteReason) -> Effect {
    Effect::main(target, Write::create(body), reason)
}

/// The row of an object that was read, with its digest.
pub fn read<D>(object: &DynamicObject, digest: D) -> Row<D> {
    let meta = &object.metadata;
    let version = meta.resource_version.as_deref().unwrap_or_default();
    Row {
        uid: meta.uid.as_deref().unwrap_or_default().into(),
        version: version.parse().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        partial: false,
        digest,
        body: None,
    }
}

/// The controller of an object, as a list of owner references.
pub fn controlled_by(kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// The finalizers that the Instance controller sets on an Instance.
pub fn finalizers(hub: bool) -> impl Iterator<Item = &'static str> {
    [keys::CLAIM_FINALIZER]
        .into_iter()
        .chain(hub.then_some(keys::INSTANCE_FINALIZER))
}

/// A warning Event about the Instance with this UID.
pub fn warning(instance: Target, uid: &str, reason: &str, action: &str, message: String) -> Event {
    Event {
        plane: Plane::Cell,
        about: ObjectRef {
            api_version: API_VERSION.to_owned(),
            kind: instance.resource.kind,
            namespace: instance.namespace.unwrap_or_default(),
            name: instance.name,
            uid: uid.to_owned(),
        },
        warning: true,
        reason: reason.to_owned(),
        action: action.to_owned(),
        message,
    }
}
