//! Digests of the objects that others reference: of a project, and as companions on the hub. Values are hashed, never kept.

use super::{annotation, bounded, label, owned, size_of};
use fedgate_api::keys;
use fedgate_engine::diff::Digest;
use fedgate_kinds::CompanionKind;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A companion, or another object of its kind on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// Digest of the part that is synced: see [`payload_of`].
    pub payload: Digest,
    /// Type of a Secret.
    pub secret_type: Option<Arc<str>>,
    /// Annotation `referenced-by` as text.
    pub referenced_by: Option<Arc<str>>,
    /// Label with the policy that is to claim it, if an object that lives at one member expects it.
    pub delivery_policy: Option<Arc<str>>,
}

/// An object of a project that may be referenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Digest of the part that is synced: see [`payload_of`].
    pub payload: Digest,
    /// Type of a Secret.
    pub secret_type: Option<Arc<str>>,
    /// Bytes of all values; of a kind outside the core group those of its JSON.
    pub size: usize,
}

/// The payload as it is carried: of the core kinds their data, of any other kind the root fields but metadata and status.
pub fn payload_of(object: &DynamicObject, kind: CompanionKind) -> Map<String, Value> {
    let fields = object.data.as_object().into_iter().flatten();
    let is_carried = |field: &str| match field {
        "apiVersion" | "kind" | "status" => false,
        "data" | "binaryData" | "type" => true,
        _ => !kind.is_core(),
    };
    let payload = fields.filter(|(field, value)| is_carried(field) && !value.is_null());
    payload
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect()
}

/// Digest of the payload, the type of a Secret, and the size in bytes.
pub(super) fn payload(object: &DynamicObject, kind: CompanionKind) -> (Digest, Option<Arc<str>>, usize) {
    if !kind.is_core() {
        let payload = Value::Object(payload_of(object, kind));
        return (Digest::of(&payload), None, size_of(&payload) as usize);
    }
    let part = |key: &str| object.data[key].as_object().filter(|values| !values.is_empty());
    let size = |key: &str, is_base64: bool| -> usize {
        let lengths = part(key)
            .into_iter()
            .flatten()
            .map(|(_, v)| v.as_str().map_or(0, str::len));
        lengths
            .map(|length| if is_base64 { length / 4 * 3 } else { length })
            .sum()
    };
    let secret_type = object.data.get("type").and_then(Value::as_str);
    (
        Digest::of(&json!([secret_type, part("data"), part("binaryData")])),
        secret_type.map(|text| bounded(text).into()),
        size("data", secret_type.is_some()) + size("binaryData", true),
    )
}

impl Companion {
    /// Digests a labelled object of the hub.
    pub fn read(object: &DynamicObject, kind: CompanionKind) -> Self {
        let (payload, secret_type, _) = payload(object, kind);
        Self {
            payload,
            secret_type,
            referenced_by: owned(annotation(object, keys::REFERENCED_BY)),
            delivery_policy: owned(label(object, keys::LANE)),
        }
    }
}

impl Payload {
    /// Digests an object of a project that may be referenced. Its values are hashed and counted, never kept.
    pub fn read(object: &DynamicObject, kind: CompanionKind) -> Self {
        let (payload, secret_type, size) = payload(object, kind);
        Self {
            payload,
            secret_type,
            size,
        }
    }
}
