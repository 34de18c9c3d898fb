//! Digest of a Workload. The controller decides on the whole object: the text of a Workload of common size is kept, within a
//! budget of its project. Any other Workload is read from its plane for each reconcile.

use super::{Extent, annotation};
use fedgate_api::keys;
use fedgate_engine::diff::Digest;
use kube::core::{DynamicObject, ObjectMeta};
use serde::Serialize;
use serde_json::Value;

/// Maximum length of a text that is kept, in bytes.
const TEXT_LIMIT: usize = 16 * 1024;

/// Maximum length of all texts that are kept of one project, in bytes.
pub const TEXTS_OF_PROJECT: usize = 4 * 1024 * 1024;

/// A Workload in the index. Two are equal if their controller decides the same on both; the text follows from the digest.
#[derive(Debug, Clone)]
pub struct WorkloadDigest {
    /// Size of its spec.
    pub extent: Extent,
    whole: Digest,
    text: Option<Box<str>>,
}

/// Fields of a Workload that its controller reads. The body is borrowed, because it may take tens of megabytes.
#[derive(Serialize)]
struct FieldsRead<'a> {
    metadata: ObjectMeta,
    #[serde(flatten)]
    data: &'a Value,
}

impl PartialEq for WorkloadDigest {
    fn eq(&self, other: &Self) -> bool {
        (self.whole, self.extent) == (other.whole, other.extent)
    }
}

impl WorkloadDigest {
    /// Digests a Workload; keeps its text if that is not longer than `room` bytes.
    pub fn read(object: &DynamicObject, room: usize) -> Self {
        let mut whole = Self::whole(object);
        whole.text = whole.text.filter(|text| text.len() <= room.min(TEXT_LIMIT));
        whole
    }

    /// Digests a Workload and keeps its text, whatever its length.
    pub fn whole(object: &DynamicObject) -> Self {
        let metadata = &object.metadata;
        let read = FieldsRead {
            metadata: ObjectMeta {
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                generation: metadata.generation,
                deletion_timestamp: metadata.deletion_timestamp.clone(),
                finalizers: metadata.finalizers.clone(),
                annotations: annotation(object, keys::ALLOW_GAP)
                    .filter(|value| *value == "true")
                    .map(|value| [(keys::ALLOW_GAP.to_owned(), value.to_owned())].into()),
                ..ObjectMeta::default()
            },
            data: &object.data,
        };
        let text = serde_json::to_string(&read).unwrap_or_default();
        Self {
            extent: Extent::of(object),
            whole: Digest::of_hash(&text),
            text: Some(text.into()),
        }
    }

    /// JSON of the fields that its controller reads; `None` if it is not kept.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Number of bytes of its text; 0 if it has none.
    pub fn text_len(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }

    /// Digest of the fields that its controller reads.
    pub fn digest(&self) -> Digest {
        self.whole
    }
}
