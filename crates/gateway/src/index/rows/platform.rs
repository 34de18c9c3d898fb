//! Digests of the platform's objects (contract: clusters.md §8): the hub's, and those of its kinds in a project.

use super::{Strings, annotation, label, payload_roots, size_of};
use fedgate_api::keys;
use fedgate_engine::{diff::Digest, object::is_partial};
use kube::core::DynamicObject;
use serde_json::{Map, Value};
use std::sync::Arc;

/// An object of the hub of a kind of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformObject {
    /// Digest of the payload.
    pub content: Digest,
    /// The root fields but metadata and status.
    pub payload: Result<Arc<Map<String, Value>>, Unprojected>,
}

/// Why an object of the hub is not projected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unprojected {
    /// The object cannot be decoded.
    Broken,
    /// The object has this number of bytes, more than are synced, or too many levels.
    TooLarge(u32),
}

impl PlatformObject {
    /// Digests an object of the hub whose payload may have this size.
    pub fn read(object: &DynamicObject, largest: u32) -> Self {
        let payload = payload_roots(object);
        let value = Value::Object(payload);
        let size = size_of(&value);
        let content = Digest::of(&value);
        let payload = match value {
            _ if is_partial(object) => Err(Unprojected::Broken),
            Value::Object(payload) if size <= largest => Ok(Arc::new(payload)),
            _ => Err(Unprojected::TooLarge(size)),
        };
        Self { content, payload }
    }
}

/// An object of such a kind in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformProjection {
    /// True if it has our label.
    pub labelled: bool,
    /// UID of the hub's object that it was made from, by its annotation.
    pub source_uid: Option<Arc<str>>,
    /// Digest of the payload; of an object without either mark the default, since nothing depends on it.
    pub content: Digest,
}

impl PlatformProjection {
    /// Digests an object of a project.
    pub fn read(object: &DynamicObject, words: &mut Strings) -> Self {
        let labelled = label(object, keys::PROJECTED) == Some("true");
        let source_uid = annotation(object, keys::SOURCE_UID).map(|uid| words.intern(uid));
        let is_marked = labelled || source_uid.is_some();
        Self {
            content: if is_marked {
                Digest::of(&Value::Object(payload_roots(object)))
            } else {
                Digest::default()
            },
            labelled,
            source_uid,
        }
    }
}
