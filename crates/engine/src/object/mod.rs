//! An object as a server may send it. Metadata fields of the wrong type are omitted, values nested too deeply are cut
//! off, and an object whose body cannot be read is reduced to its metadata, so that one malformed object breaks neither
//! a list nor a watch. The body may be any JSON. `managedFields`, a large part of an object, are skipped.

use kube::{
    Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, ObjectMeta, TypeMeta},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value, json};
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
};

/// Depth to which a field of an object is read. An API server admits thousands of levels, each of which costs stack in
/// every recursive pass over a value; `serde_json` reads at most 128, including those around the object.
pub const LEVELS: usize = 96;

/// Memory that the values of one object may take while it is read, in bytes as [`VALUE`] and [`MAP`] count them. An object
/// of an API server has 1.5 MiB; as lists of maps that are nearly empty it would take a hundred times as much.
const ROOM: u32 = 64 * 1024 * 1024;

/// Bytes that a value is counted as, beside its text.
const VALUE: u32 = 64;

/// Bytes that a map is counted as, since its tree reserves space for entries that it does not have.
const MAP: u32 = 640;

/// A path to a field that no controller uses: names, and `*` for each entry of a list. The reader skips the named
/// value. If the last names begin with `!`, the reader keeps these fields of the value alone, and of each field a text alone.
pub type Unread = &'static [&'static str];

/// The kind of an object of which only the metadata is known.
const PARTIAL: &str = "PartialObjectMetadata";

/// An object that was decoded leniently, with the list of its malformed fields.
#[derive(Debug, Clone)]
pub struct LenientObject {
    /// The object, without `managedFields`.
    pub object: DynamicObject,
    /// The fields that were omitted, in full or in part.
    pub malformed_fields: Vec<String>,
}

/// True if only the object's metadata is known, because its body was too large or could not be read.
pub fn is_partial(object: &DynamicObject) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == PARTIAL)
}

/// Size of a value as JSON, in bytes.
pub fn size(value: &Value) -> u32 {
    let mut counter = Counter(0);
    // All map keys of a value are strings, and the counter cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// The entries of a list; none of any other value.
pub fn entries(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Counts the written bytes.
struct Counter(u32);

impl std::io::Write for Counter {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let count = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.0 = self.0.saturating_add(count);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The depth of a value; 0 if it is neither a list nor a map.
pub fn levels(value: &Value) -> usize {
    match value {
        Value::Array(entries) => 1 + entries.iter().map(levels).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

impl LenientObject {
    /// Reads an object from JSON, except the field at `unread`. An object whose body cannot be read is reduced to its
    /// metadata; an error if that cannot be read either.
    pub fn read(text: &[u8], unread: Unread) -> serde_json::Result<Self> {
        let from = |unread| -> serde_json::Result<Self> {
            let mut deserializer = serde_json::Deserializer::from_slice(text);
            let read = Roots::read(unread, &mut deserializer)?;
            deserializer.end()?;
            Ok(read)
        };
        from(Some(unread)).or_else(|_| from(None))
    }

    /// An object of which nothing could be read.
    pub fn unknown() -> Self {
        Self::of(json!({"metadata": null}), Vec::new())
    }

    /// The resourceVersion; empty if the object has none.
    pub fn version(&self) -> String {
        self.object.metadata.resource_version.clone().unwrap_or_default()
    }

    fn of(value: Value, mut faults: Vec<String>) -> Self {
        let Value::Object(mut roots) = value else {
            return Self::of(json!({}), faults);
        };
        let metadata = match roots.remove("metadata") {
            None => ObjectMeta::default(),
            Some(Value::Object(fields)) => read(fields, &mut faults),
            Some(_) => {
                faults.push("metadata".to_owned());
                ObjectMeta::default()
            }
        };
        let types = match (roots.remove("apiVersion"), roots.remove("kind")) {
            (Some(Value::String(api_version)), Some(Value::String(kind))) => {
                Some(TypeMeta { api_version, kind })
            }
            _ => None,
        };
        Self {
            object: DynamicObject {
                types,
                metadata,
                data: Value::Object(roots),
            },
            malformed_fields: faults,
        }
    }
}

impl Serialize for LenientObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LenientObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Roots::read(Some(&[]), deserializer)
    }
}

/// Reads the fields of an object.
struct Roots {
    /// The path that is skipped; `None` if everything but the metadata is.
    unread: Option<Unread>,
    progress: Progress,
    /// The fields that were cut off.
    faults: RefCell<Vec<String>>,
}

impl Roots {
    fn read<'de, D: Deserializer<'de>>(
        unread: Option<Unread>,
        deserializer: D,
    ) -> Result<LenientObject, D::Error> {
        let roots = Self {
            unread,
            progress: Progress::default(),
            faults: RefCell::default(),
        };
        let object = Bounded {
            levels: LEVELS,
            unread: &[],
            progress: &roots.progress,
            roots: Some(&roots),
        };
        let mut value = object.deserialize(deserializer)?;
        let mut faults = roots.faults.into_inner();
        if let (None, Value::Object(roots)) = (unread, &mut value) {
            faults.push("everything but metadata".to_owned());
            let types = [("apiVersion", "meta.k8s.io/v1"), ("kind", PARTIAL)];
            roots.extend(types.map(|(name, text)| (name.to_owned(), text.into())));
        }
        Ok(LenientObject::of(value, faults))
    }

    /// The value of the field `name` of the object; `None` if it is not read.
    fn field<'de, A: MapAccess<'de>>(&self, entries: &mut A, name: &str) -> Result<Option<Value>, A::Error> {
        if name == "metadata" {
            let metadata = Bounded {
                levels: METADATA_LEVELS,
                unread: &["managedFields"],
                progress: &Progress::default(),
                roots: None,
            };
            return entries.next_value_seed(metadata).map(Some);
        }
        let Some(unread) = self.unread else {
            entries.next_value::<IgnoredAny>()?;
            return Ok(None);
        };
        self.progress.cut.set(false);
        let value = field(entries, name, LEVELS, unread, &self.progress)?;
        if value.is_some() && self.progress.cut.get() {
            let fault = format!("{name} (nested deeper than {LEVELS} levels)");
            self.faults.borrow_mut().push(fault);
        }
        Ok(value)
    }
}

/// State of the reading of an object.
struct Progress {
    /// True if a value was cut off.
    cut: Cell<bool>,
    /// Rest of [`ROOM`], in bytes.
    room: Cell<u32>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            cut: Cell::new(false),
            room: Cell::new(ROOM),
        }
    }
}

impl Progress {
    /// Counts a value that is about to be read; an error if there is no room for it.
    fn count<E: de::Error>(&self, bytes: u32) -> Result<(), E> {
        let left = self.room.get().checked_sub(bytes);
        self.room
            .set(left.ok_or_else(|| E::custom("the object has more values than are read of one"))?);
        Ok(())
    }
}

/// The value of the field `name`, cut off below `levels` levels; `None` if the field is `unread`.
fn field<'de, A: MapAccess<'de>>(
    entries: &mut A,
    name: &str,
    levels: usize,
    unread: Unread,
    progress: &Progress,
) -> Result<Option<Value>, A::Error> {
    let unread = match unread {
        [last, ..] if last.starts_with('!') => {
            if !unread.iter().any(|read| read.strip_prefix('!') == Some(name)) {
                entries.next_value::<IgnoredAny>()?;
                return Ok(None);
            }
            let text = Bounded {
                levels: 0,
                unread: &[],
                progress: &Progress::default(),
                roots: None,
            };
            return entries.next_value_seed(text).map(Some);
        }
        [last] if *last == name => {
            entries.next_value::<IgnoredAny>()?;
            return Ok(None);
        }
        [first, rest @ ..] if *first == name => rest,
        _ => &[],
    };
    let seed = Bounded {
        levels,
        unread,
        progress,
        roots: None,
    };
    entries.next_value_seed(seed).map(Some)
}

/// Reads a value up to a depth of `levels`. Deeper values are skipped, which takes no stack, and noted in `progress`.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    levels: usize,
    unread: Unread,
    progress: &'a Progress,
    /// The object itself is read.
    roots: Option<&'a Roots>,
}

impl Bounded<'_> {
    fn ends_here(self) -> bool {
        if self.levels == 0 {
            self.progress.cut.set(true);
        }
        self.levels == 0
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.progress.count(VALUE)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let has_no_field = matches!(self.unread, [last, ..] if last.starts_with('!'));
        if has_no_field || self.ends_here() {
            while entries.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let inner = Self {
            levels: self.levels - 1,
            unread: self.unread.strip_prefix(&["*"]).unwrap_or_default(),
            roots: None,
            ..self
        };
        let mut values = Vec::new();
        while let Some(value) = entries.next_element_seed(inner)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        if self.ends_here() {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        self.progress.count(MAP)?;
        let mut values = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = match self.roots {
                Some(roots) => roots.field(&mut entries, &name)?,
                None => field(&mut entries, &name, self.levels - 1, self.unread, self.progress)?,
            };
            values.extend(value.map(|value| (name, value)));
        }
        Ok(Value::Object(values))
    }
}

/// Deeper than any field of the metadata, so that only a value of the wrong type can be cut off.
const METADATA_LEVELS: usize = 5;

/// The metadata; fields that fedgate does not use are omitted.
fn read(fields: Map<String, Value>, faults: &mut Vec<String>) -> ObjectMeta {
    let mut meta = ObjectMeta::default();
    for (name, value) in fields {
        let sound = match &*name {
            "annotations" => map(value, &mut meta.annotations),
            "creationTimestamp" => one(value, &mut meta.creation_timestamp),
            "deletionGracePeriodSeconds" => one(value, &mut meta.deletion_grace_period_seconds),
            "deletionTimestamp" => one(value, &mut meta.deletion_timestamp),
            "finalizers" => list(value, &mut meta.finalizers),
            "generateName" => one(value, &mut meta.generate_name),
            "generation" => one(value, &mut meta.generation),
            "labels" => map(value, &mut meta.labels),
            "name" => one(value, &mut meta.name),
            "namespace" => one(value, &mut meta.namespace),
            "ownerReferences" => list(value, &mut meta.owner_references),
            "resourceVersion" => one(value, &mut meta.resource_version),
            "selfLink" => one(value, &mut meta.self_link),
            "uid" => one(value, &mut meta.uid),
            _ => true,
        };
        if !sound {
            faults.push(format!("metadata.{name}"));
        }
    }
    meta
}

/// Reads a field; true if it has the right type.
fn one<T: DeserializeOwned>(value: Value, into: &mut Option<T>) -> bool {
    let read = serde_json::from_value(value);
    let sound = read.is_ok();
    *into = read.unwrap_or_default();
    sound
}

/// Reads a map and keeps the entries of the right type; true if all entries have it.
fn map<T: DeserializeOwned>(value: Value, into: &mut Option<BTreeMap<String, T>>) -> bool {
    let Value::Object(entries) = value else {
        return value.is_null();
    };
    let count = entries.len();
    let entries = entries.into_iter();
    let sound: BTreeMap<String, T> = entries
        .filter_map(|(key, entry)| Some((key, serde_json::from_value(entry).ok()?)))
        .collect();
    into.insert(sound).len() == count
}

/// Reads a list and keeps the entries of the right type; true if all entries have it.
fn list<T: DeserializeOwned>(value: Value, into: &mut Option<Vec<T>>) -> bool {
    let Value::Array(entries) = value else {
        return value.is_null();
    };
    let count = entries.len();
    let entries = entries.into_iter();
    let sound: Vec<T> = entries
        .filter_map(|entry| serde_json::from_value(entry).ok())
        .collect();
    into.insert(sound).len() == count
}

impl Resource for LenientObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.object.metadata
    }
}

#[cfg(test)]
mod tests;
