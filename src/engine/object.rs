//! An object as a server may send it: what of its metadata has the wrong form is left out, so that one malformed object
//! spoils neither a list nor a watch. Its body is anything. `managedFields`, much of an object, are passed over.

use kube::{
    Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, ObjectMeta, TypeMeta},
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap, fmt};

/// See the module.
#[derive(Debug, Clone)]
pub struct Tolerant {
    /// The object, without `managedFields`.
    pub object: DynamicObject,
    /// The fields of its metadata that were left out, in full or in part.
    pub faults: Vec<String>,
}

impl Tolerant {
    /// Its resourceVersion; empty if it has none.
    pub fn version(&self) -> String {
        self.object.metadata.resource_version.clone().unwrap_or_default()
    }
}

impl Serialize for Tolerant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tolerant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (mut roots, metadata) = deserializer.deserialize_any(Roots)?;
        let mut faults = Vec::new();
        let metadata = match metadata {
            None => ObjectMeta::default(),
            Some(Metadata(Some(fields))) => read(fields, &mut faults),
            Some(Metadata(None)) => {
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
        let data = Value::Object(roots);
        Ok(Self {
            object: DynamicObject {
                types,
                metadata,
                data,
            },
            faults,
        })
    }
}

/// Takes what is no map for `$nothing`.
macro_rules! no_map {
    ($nothing:expr) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($nothing)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            while entries.next_element::<IgnoredAny>()?.is_some() {}
            Ok($nothing)
        }
    };
}

/// Reads an object's fields, and apart from them its metadata.
struct Roots;

impl<'de> Visitor<'de> for Roots {
    type Value = (Map<String, Value>, Option<Metadata>);

    no_map!((Map::new(), None));

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut roots, mut metadata) = (Map::new(), None);
        while let Some(name) = entries.next_key::<String>()? {
            if name == "metadata" {
                metadata = Some(entries.next_value()?);
            } else {
                roots.insert(name, entries.next_value()?);
            }
        }
        Ok((roots, metadata))
    }
}

/// The fields of metadata, but for those that nobody reads; `None` if it is no map.
struct Metadata(Option<Map<String, Value>>);

struct MetadataVisitor;

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MetadataVisitor)
    }
}

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    no_map!(Metadata(None));

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name == "managedFields" {
                entries.next_value::<IgnoredAny>()?;
            } else {
                fields.insert(name, entries.next_value()?);
            }
        }
        Ok(Metadata(Some(fields)))
    }
}

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

/// Reads a field; whether it has the form that it must have.
fn one<T: DeserializeOwned>(value: Value, into: &mut Option<T>) -> bool {
    let read = serde_json::from_value(value);
    let sound = read.is_ok();
    *into = read.unwrap_or_default();
    sound
}

/// The same of the entries of a map: those that have the right form are taken.
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

/// The same of the entries of a list.
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

impl Resource for Tolerant {
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

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::api_version(resource)
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
mod tests {
    use super::*;
    use serde_json::json;

    fn tolerant(value: &Value) -> Tolerant {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn a_sound_object_is_read_as_kube_reads_it() {
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "spec": {"n": 1.5},
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"},
                "creationTimestamp": "2026-05-04T10:00:00Z", "finalizers": ["f"], "deletionTimestamp": null},
        });
        for value in [value, json!({"data": {"a": "1"}}), json!({"metadata": {}})] {
            let read = tolerant(&value);
            assert_eq!(read.object, serde_json::from_value(value).unwrap());
            assert_eq!(read.faults, [""; 0]);
        }
    }

    #[test]
    fn managed_fields_are_passed_over_and_all_else_of_metadata_is_read() {
        let text = r#"{"metadata": {"name": "a", "managedFields": [{"manager": "m"}], "generateName": "a-", "selfLink": "/a",
            "deletionGracePeriodSeconds": 3, "deletionTimestamp": "2026-05-04T10:00:00Z", "annotations": {}, "other": 1}}"#;
        let read: Tolerant = serde_json::from_str(text).unwrap();
        let mut whole: DynamicObject = serde_json::from_str(text).unwrap();
        whole.metadata.managed_fields = None;
        assert_eq!(read.object, whole);
        assert_eq!(read.faults, [""; 0]);
    }

    #[test]
    fn what_has_the_wrong_form_is_left_out_and_named() {
        let read = tolerant(&json!({
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": "many",
                "labels": {"good": "x", "bad": 5}, "annotations": "none", "finalizers": ["f", {}],
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "n", "uid": "o"}, {"uid": []}]},
            "spec": [1],
        }));
        let meta = read.object.metadata;
        assert_eq!(
            (meta.name.as_deref(), meta.uid.as_deref()),
            (Some("a"), Some("u"))
        );
        assert_eq!((meta.generation, meta.annotations), (None, None));
        assert_eq!(json!(meta.labels), json!({"good": "x"}));
        assert_eq!(json!(meta.finalizers), json!(["f"]));
        assert_eq!(meta.owner_references.unwrap().len(), 1);
        assert_eq!(read.object.data, json!({"spec": [1]}));
        let mut faults = read.faults;
        faults.sort();
        let fields = [
            "annotations",
            "finalizers",
            "generation",
            "labels",
            "ownerReferences",
        ];
        assert_eq!(faults, fields.map(|field| format!("metadata.{field}")));
    }

    #[test]
    fn what_is_no_object_at_all_has_no_name() {
        for value in [
            json!(5),
            json!(null),
            json!({"metadata": "a"}),
            json!({"metadata": {"name": 7}}),
        ] {
            let read = tolerant(&value);
            assert_eq!(read.object.metadata.name, None, "{value}");
        }
    }
}
