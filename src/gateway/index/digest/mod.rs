//! Digests: what the gateway reads of each kind of object. Each is made by one reader from the object as served.

mod companion;
mod deployment;
mod hub;
mod instance;
mod rollup;

pub use companion::{Companion, Payload};
pub use deployment::{
    Extent, HubCopy, REFERENCE_LIMIT, Reference, ReferenceAnnotations, Source, SpecSize, template_digest,
};
pub use hub::{Binding, Cell, CityPolicy, CitySet, HubNamespaceDigest, InterpreterDigest};
pub use instance::{Projection, SIZE_LIMIT, WriteBackDigest, without_generations};
pub use rollup::{Rollup, WHY, written};

use super::status::ConditionText;
use fedgate_api::names::{CityCode, NameError};
use fedgate_engine::{diff::Digest, interner::Interner, object, plane::apply::HasStrings};
use fedgate_kinds::FederatedKind;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// What many objects repeat, held once: names and UIDs, which stand on both planes; condition types and reasons.
#[derive(Debug, Default)]
pub struct Strings {
    /// Words and names.
    pub texts: Interner<str>,
    /// What conditions say.
    pub condition_texts: Interner<ConditionText>,
}

impl HasStrings for Strings {
    fn texts(&mut self) -> &mut Interner<str> {
        &mut self.texts
    }
}

impl Strings {
    /// The shared form of a word.
    pub fn intern(&mut self, word: &str) -> Arc<str> {
        self.texts.intern(word)
    }

    /// The shared form of a word that may be missing.
    fn share_some(&mut self, word: Option<&str>) -> Option<Arc<str>> {
        word.map(|word| self.intern(word))
    }

    /// A city code, with its text shared.
    fn city(&mut self, code: &str) -> Result<CityCode, NameError> {
        CityCode::of_word(self.intern(code))
    }
}

/// The value of a label.
pub fn label<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The value of an annotation.
pub fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// When the object was created, in seconds since the epoch.
fn created(object: &DynamicObject) -> i64 {
    let time = object.metadata.creation_timestamp.as_ref();
    time.map_or(0, |time| time.0.as_second())
}

fn owned(text: Option<&str>) -> Option<Arc<str>> {
    text.map(Into::into)
}

/// Everything of the object but metadata and status: what travels to the hub.
pub fn payload_roots(object: &DynamicObject) -> Map<String, Value> {
    object
        .data
        .as_object()
        .map(|map| {
            map.iter()
                .filter(|(k, _)| *k != "status")
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect()
        })
        .unwrap_or_default()
}

/// Most levels of lists and maps in what is carried and returned; fewer than are read of an object, so that what was cut
/// off there is never carried.
pub const LEVEL_LIMIT: usize = 64;

/// Size of what is carried or returned, in bytes; no size is allowed of what is nested too deeply.
pub fn size_of(value: &Value) -> u32 {
    if object::levels(value) > LEVEL_LIMIT {
        u32::MAX
    } else {
        object::size(value)
    }
}

/// The annotations that travel, with suspension as `true` or absent.
pub fn carried(kind: &FederatedKind, object: &DynamicObject) -> BTreeMap<String, String> {
    kind.carried_annotations
        .iter()
        .filter_map(|key| annotation(object, key).map(|value| (key.clone(), value.to_owned())))
        .filter(|(key, value)| kind.suspend_annotation.as_ref() != Some(key) || value == "true")
        .collect()
}

fn content(
    kind: &FederatedKind,
    object: &DynamicObject,
    city: Option<&str>,
    upstream: Option<&str>,
    uid: Option<&str>,
) -> Digest {
    let whole = json!([city, upstream, uid, carried(kind, object), payload_roots(object)]);
    Digest::of(&whole)
}

fn controller(
    object: &DynamicObject,
) -> Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    object
        .metadata
        .owner_references
        .as_ref()?
        .iter()
        .find(|o| o.controller == Some(true))
}
