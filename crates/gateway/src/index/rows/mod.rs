//! Digests: the fields of each kind that the gateway reads. One reader per kind digests the object as served.

mod companion;
mod delivery;
mod deployment;
mod hub;
mod instance;
mod noted;
pub mod place;
mod platform;
mod references;
mod returned;
mod rollup;
pub mod status;
mod workload;

pub use companion::{Companion, Payload, payload_of};
pub use delivery::{Delivery, Item};
pub use deployment::{
    Extent, HubCopy, Lacks, ReferenceAnnotations, Routed, Source, guard_holds, template_digest,
};
pub use hub::{
    Binding, Cell, CellTaint, CityPolicy, CitySet, ClusterReady, HubNamespaceDigest, InterpreterDigest,
    MoveCause, Template,
};
pub use instance::{Projection, SIZE_LIMIT, WriteBackDigest, without_generations};
pub use noted::ConditionsAt;
pub use place::Place;
pub use platform::{PlatformObject, PlatformProjection, Unprojected};
pub use returned::{OwnReturn, Returned, Returning};
pub use rollup::{MAX_REPLACED, Rollup, WHY, written};
pub use workload::{TEXTS_OF_PROJECT, WorkloadDigest};

use crate::index::rows::status::ConditionText;
use fedgate_api::names::{CityCode, NameError};
use fedgate_engine::{diff::Digest, interner::Interner, object, store::apply::HasStrings};
use fedgate_kinds::{FederatedKind, Suspension};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// Strings that many objects share, stored once: names and UIDs, which occur on both planes; condition types and
/// reasons.
#[derive(Debug, Default)]
pub struct Strings {
    /// Words and names.
    pub texts: Interner<str>,
    /// Texts of conditions.
    pub condition_texts: Interner<ConditionText>,
}

impl HasStrings for Strings {
    fn texts(&mut self) -> &mut Interner<str> {
        &mut self.texts
    }
}

/// Maximum length of a text in a digest, in bytes: no name, UID, finalizer, type or reason that an API server accepts is
/// longer.
const LONGEST: usize = 1_024;

/// The text. In place of one that is longer than [`LONGEST`] its beginning and its digest, which is equal for the same text
/// alone.
fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let begin = &text[..text.floor_char_boundary(100)];
    Cow::Owned(format!("{begin}…{:?}", Digest::of_hash(&text)))
}

/// The beginning of a message that is longer than a digest keeps.
fn cut(message: &str) -> Cow<'_, str> {
    if message.len() <= LONGEST {
        return Cow::Borrowed(message);
    }
    let end = message.floor_char_boundary(LONGEST - '…'.len_utf8());
    Cow::Owned(format!("{}…", &message[..end]))
}

impl Strings {
    /// Interns a string that tenants and cells write; see [`bounded`].
    pub fn intern(&mut self, word: &str) -> Arc<str> {
        self.texts.intern(&*bounded(word))
    }

    /// Interns an annotation that is read as a whole, whatever its length: an API server admits 256 KiB of all.
    fn note(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.map(|text| self.texts.intern(text))
    }

    /// Interns an optional string.
    fn share_some(&mut self, word: Option<&str>) -> Option<Arc<str>> {
        word.map(|word| self.intern(word))
    }

    /// A city code with an interned text.
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

/// The text of a field; empty if it is absent or no text.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of the list at a JSON pointer.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The condition of a type in the status of an object.
pub(crate) fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    list(&object.data, "/status/conditions").find(|condition| text(condition, "type") == kind)
}

/// True if the condition of a type has this status.
pub(crate) fn has_condition(object: &DynamicObject, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "status") == status)
}

/// Creation time of the object, in seconds since the epoch.
fn created(object: &DynamicObject) -> i64 {
    let time = object.metadata.creation_timestamp.as_ref();
    time.map_or(0, |time| time.0.as_second())
}

fn owned(text: Option<&str>) -> Option<Arc<str>> {
    text.map(Into::into)
}

/// The object without metadata and status: the part that is synced to the hub.
pub fn payload_roots(object: &DynamicObject) -> Map<String, Value> {
    let mut roots = object.data.as_object().cloned().unwrap_or_default();
    roots.remove("status");
    roots
}

/// Maximum levels of lists and maps in synced specs and returned statuses; below the maximum that is read of an
/// object, so that a truncated value is never synced.
pub const LEVEL_LIMIT: usize = 64;

/// Size of a synced spec or returned status, in bytes; the maximum if it is nested too deeply.
pub fn size_of(value: &Value) -> u32 {
    if object::levels(value) > LEVEL_LIMIT {
        u32::MAX
    } else {
        object::size(value)
    }
}

/// The annotations that are synced, with suspension as `true` or absent.
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
    let mut carried = carried(kind, object);
    let mark = kind.suspend_annotation.as_ref();
    let marked = mark.is_some_and(|key| carried.remove(key).is_some());
    let suspended = marked && kind.suspension == Suspension::Annotation;
    let mut payload = payload_roots(object);
    place::without_place(kind, &mut payload);
    let city = city.filter(|_| !kind.may_name_a_location());
    let running = Digest::of(&json!([city, upstream, uid, carried, payload]));
    if suspended {
        suspended_content(running)
    } else {
        running
    }
}

/// The content of an object that is suspended, from what it is without that.
fn suspended_content(running: Digest) -> Digest {
    Digest::of_hash(&(running, true))
}

fn is_suspended(kind: &FederatedKind, object: &DynamicObject) -> bool {
    let mark = kind.suspend_annotation.as_ref();
    mark.and_then(|key| annotation(object, key)) == Some("true")
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
