//! Digests of `ConfigMaps` and Secrets: of a project, and as companions on the hub. Values are hashed, never kept.

use super::{annotation, label, owned};
use fedgate_api::keys;
use fedgate_engine::diff::Digest;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// A companion, or another object of its kind on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// Type, `data`, `binaryData`.
    pub payload: Digest,
    /// Type of a Secret.
    pub secret_type: Option<Arc<str>>,
    /// Annotation `referenced-by` as text.
    pub referenced_by: Option<Arc<str>>,
    /// Label with the policy that is to claim it, if an object that lives at one member expects it.
    pub lane: Option<Arc<str>>,
}

/// A `ConfigMap` or Secret of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Type, `data`, `binaryData`.
    pub payload: Digest,
    /// Type of a Secret.
    pub secret_type: Option<Arc<str>>,
    /// Bytes of all values.
    pub size: usize,
}

/// Digest of type and values, the type, and the size of all values in bytes.
pub(super) fn payload(object: &DynamicObject) -> (Digest, Option<Arc<str>>, usize) {
    let part = |key: &str| {
        object
            .data
            .get(key)
            .filter(|v| v.as_object().is_some_and(|m| !m.is_empty()))
    };
    let secret_type = object.data.get("type").and_then(Value::as_str);
    let length = |v: &Value, base64: bool| {
        let n = v.as_str().map_or(0, str::len);
        if base64 { n / 4 * 3 } else { n }
    };
    let size = |key: &str, base64: bool| -> usize {
        part(key)
            .and_then(Value::as_object)
            .map_or(0, |m| m.values().map(|v| length(v, base64)).sum())
    };
    let is_secret = secret_type.is_some();
    (
        Digest::of(&json!([secret_type, part("data"), part("binaryData")])),
        owned(secret_type),
        size("data", is_secret) + size("binaryData", true),
    )
}

impl Companion {
    /// Digests a labelled `ConfigMap` or Secret of the hub.
    pub fn read(object: &DynamicObject) -> Self {
        let (payload, secret_type, _) = payload(object);
        Self {
            payload,
            secret_type,
            referenced_by: owned(annotation(object, keys::REFERENCED_BY)),
            lane: owned(label(object, keys::LANE)),
        }
    }
}

impl Payload {
    /// Digests a `ConfigMap` or Secret of a project. Its values are hashed and counted, never kept.
    pub fn read(object: &DynamicObject) -> Self {
        let (payload, secret_type, size) = payload(object);
        Self {
            payload,
            secret_type,
            size,
        }
    }
}
