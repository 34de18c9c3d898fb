//! An object as a server may send it: what of its metadata has the wrong form is left out, so that one malformed object
//! spoils neither a list nor a watch. Its body is anything.

use kube::{
    Resource,
    core::{ApiResource, DynamicObject, DynamicResourceScope, ObjectMeta, TypeMeta},
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Tolerant {
    pub(super) object: DynamicObject,
    /// The fields of its metadata that were left out, in full or in part.
    pub(super) faults: Vec<String>,
}

impl Tolerant {
    /// Its resourceVersion; empty if it has none.
    pub(super) fn version(&self) -> String {
        self.object.metadata.resource_version.clone().unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Tolerant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut faults = Vec::new();
        let mut roots = match Value::deserialize(deserializer)? {
            Value::Object(roots) => roots,
            _ => Map::new(),
        };
        let metadata = match roots.remove("metadata") {
            None => ObjectMeta::default(),
            Some(Value::Object(mut fields)) => {
                // Much of an object, and read by nobody.
                fields.remove("managedFields");
                read(fields, &mut faults)
            }
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

fn read(fields: Map<String, Value>, faults: &mut Vec<String>) -> ObjectMeta {
    let fields = Value::Object(fields);
    if let Ok(metadata) = ObjectMeta::deserialize(&fields) {
        return metadata;
    }
    let Value::Object(fields) = fields else {
        return ObjectMeta::default();
    };
    let mut sound = Map::new();
    for (name, value) in fields {
        if fits(&name, &value) {
            sound.insert(name, value);
        } else {
            sound.extend(salvage(&name, value).map(|rest| (name.clone(), rest)));
            faults.push(format!("metadata.{name}"));
        }
    }
    ObjectMeta::deserialize(&Value::Object(sound)).unwrap_or_default()
}

/// Whether a field has the form it must have.
fn fits(name: &str, value: &Value) -> bool {
    ObjectMeta::deserialize(&json!({ name: value })).is_ok()
}

/// The entries of a map or list that have the right form.
fn salvage(name: &str, value: Value) -> Option<Value> {
    let rest = match value {
        Value::Object(mut entries) => {
            entries.retain(|key, entry| fits(name, &json!({ key: entry })));
            Value::Object(entries)
        }
        Value::Array(mut entries) => {
            entries.retain(|entry| fits(name, &json!([entry])));
            Value::Array(entries)
        }
        _ => return None,
    };
    fits(name, &rest).then_some(rest)
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
