//! Comparisons of JSON values: digests, which replace a stored copy, and the merge patch that turns one value into
//! another.

use super::{plan::ExactFields, random::Random};
use kube::core::{DynamicObject, ObjectMeta};
use serde_json::{Map, Value, json};
use std::hash::{BuildHasher, Hash, Hasher};

/// A digest of a value to compare, valid only within this process. No tenant knows its key, so no tenant can prepare
/// two values with one digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(u64);

impl Digest {
    /// The digest of a JSON value; the order of map keys does not matter.
    pub fn of(value: &Value) -> Self {
        let mut hasher = Random.build_hasher();
        feed(value, &mut hasher);
        Self(hasher.finish())
    }

    /// The digest of a set that has this part too. Neither the order of the parts nor when they are added matters; no part
    /// may be added twice.
    #[must_use]
    pub fn with(self, part: &impl Hash) -> Self {
        Self(self.0 ^ Random.hash_one(part))
    }

    /// The digest of any hashable value.
    pub fn of_hash(value: &impl Hash) -> Self {
        Self(Random.hash_one(value))
    }
}

fn feed(value: &Value, into: &mut impl Hasher) {
    match value {
        Value::Null => into.write_u8(0),
        Value::Bool(b) => (1u8, b).hash(into),
        Value::Number(n) => (2u8, n).hash(into),
        Value::String(s) => (3u8, s).hash(into),
        Value::Array(items) => {
            (4u8, items.len()).hash(into);
            for item in items {
                feed(item, into);
            }
        }
        Value::Object(map) => {
            (5u8, map.len()).hash(into);
            // serde_json's map is sorted unless a dependency enables its `preserve_order` feature.
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            for key in keys {
                key.hash(into);
                feed(&map[key], into);
            }
        }
    }
}

/// The JSON merge patch that turns `from` into `to`; `None` if they are equal.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let mut patch = Map::new();
            for (key, wanted) in to {
                let change = match from.get(key) {
                    Some(had) => merge_patch(had, wanted),
                    None => Some(wanted.clone()),
                };
                patch.extend(change.map(|change| (key.clone(), change)));
            }
            for key in from.keys().filter(|k| !to.contains_key(*k)) {
                patch.insert(key.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (from, to) => (from != to).then(|| to.clone()),
    }
}

/// True if a root field is neither identity nor status.
pub fn is_payload(root: &str) -> bool {
    !matches!(root, "apiVersion" | "kind" | "metadata" | "status")
}

/// The merge patch that makes the fields named by `exact` equal to `wanted`; `None` if they are equal.
pub fn exact_patch(live: &DynamicObject, wanted: &Value, exact: &ExactFields) -> Option<Value> {
    let ExactFields { roots, tolerated } = exact;
    let mut patch = Map::new();
    for root in roots {
        let change = match (live.data.get(root), wanted.get(root)) {
            (Some(live), Some(wanted)) => {
                let mut inner = merge_patch(live, wanted);
                if let Some(Value::Object(inner)) = &mut inner {
                    inner.retain(|key, value| {
                        !(value.is_null() && ExactFields::tolerates(tolerated, key, &live[key]))
                    });
                }
                inner.filter(|i| i.as_object().is_none_or(|m| !m.is_empty()))
            }
            (None, wanted) => wanted.cloned(),
            (Some(_), None) => Some(Value::Null),
        };
        patch.extend(change.map(|change| (root.clone(), change)));
    }
    of_object(live, patch)
}

/// The merge patch that removes the root fields that `wanted` lacks, but for metadata and status; `None` if there is none.
pub fn other_roots(live: &DynamicObject, wanted: &Value) -> Option<Value> {
    let roots = live.data.as_object().into_iter().flat_map(Map::keys);
    let others = roots.filter(|root| is_payload(root) && wanted.get(root).is_none());
    of_object(live, others.map(|root| (root.clone(), Value::Null)).collect())
}

/// A merge patch of this object; `None` if it is empty.
fn of_object(live: &DynamicObject, mut patch: Map<String, Value>) -> Option<Value> {
    if patch.is_empty() {
        return None;
    }
    patch.insert("metadata".to_owned(), json!({"uid": live.metadata.uid}));
    Some(Value::Object(patch))
}

/// The operations of the JSON patch of a [`Write::Update`](crate::plan::Write::Update) with this body.
pub fn update_operations(body: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    for (field, value) in body["metadata"].as_object().into_iter().flatten() {
        match (field.as_str(), value.as_object()) {
            ("name" | "namespace", _) | ("labels" | "annotations", None) => {}
            ("labels" | "annotations", Some(keys)) => {
                for (key, value) in keys {
                    let path = format!("/metadata/{field}/{}", key.replace('~', "~0").replace('/', "~1"));
                    let is_removed = value.is_null();
                    let value = if is_removed { &json!("") } else { value };
                    operations.push(json!({"op": "add", "path": path, "value": value}));
                    // The server refuses to remove a key that is absent.
                    operations.extend(is_removed.then(|| json!({"op": "remove", "path": path})));
                }
            }
            _ => operations.push(json!({"op": "add", "path": format!("/metadata/{field}"), "value": value})),
        }
    }
    let roots = body.as_object().into_iter().flatten();
    operations.extend(
        roots
            .filter(|(root, _)| is_payload(root))
            .map(|(root, value)| json!({"op": "add", "path": format!("/{root}"), "value": value})),
    );
    operations
}

/// The operations that give an object the maps of labels and annotations that it lacks, if it still has this version.
pub fn absent_maps(live: &DynamicObject) -> Vec<Value> {
    let ObjectMeta {
        labels,
        annotations,
        resource_version,
        ..
    } = &live.metadata;
    let set = |field: &str, value: Value| json!({"op": "add", "path": format!("/metadata/{field}"), "value": value});
    let version = Some(set("resourceVersion", json!(resource_version)));
    let absent = [("labels", labels), ("annotations", annotations)]
        .map(|(field, map)| map.is_none().then(|| set(field, json!({}))));
    version.into_iter().chain(absent.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_digest_ignores_order_and_nothing_else() {
        let a: Value = serde_json::from_str(r#"{"x":1,"y":[1,2],"z":null}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"z":null,"y":[1,2],"x":1}"#).unwrap();
        assert_eq!(Digest::of(&a), Digest::of(&b));
        for other in [
            json!({"x":1,"y":[2,1],"z":null}),
            json!({"x":1,"y":[1,2]}),
            json!({"x":"1","y":[1,2],"z":null}),
        ] {
            assert_ne!(Digest::of(&a), Digest::of(&other));
        }
    }

    #[test]
    fn a_merge_patch_changes_removes_and_replaces_lists_whole() {
        let from = json!({"keep": 1, "change": {"a": 1, "b": 2}, "gone": true, "list": [1, 2]});
        let to = json!({"keep": 1, "change": {"a": 1, "b": 3}, "list": [1], "new": {}});
        let patch = merge_patch(&from, &to).unwrap();
        assert_eq!(
            patch,
            json!({"change": {"b": 3}, "gone": null, "list": [1], "new": {}})
        );
        assert_eq!(merge_patch(&to, &to), None);
    }

    #[test]
    fn only_the_named_roots_are_made_exact() {
        let live = object(
            json!({"labels": {"a": "b"}}),
            json!({"spec": {"x": 1, "left": 2}}),
        );
        let wanted = json!({"metadata": {}, "spec": {"x": 1}});
        assert_eq!(
            exact_patch(&live, &wanted, &ExactFields::roots(["spec"])),
            Some(json!({"metadata": {"uid": "u"}, "spec": {"left": null}}))
        );
        assert_eq!(exact_patch(&live, &wanted, &ExactFields::default()), None);
        let tolerant = ExactFields {
            roots: vec!["spec".into()],
            tolerated: &[("left", Some("2"))],
        };
        assert_eq!(exact_patch(&live, &wanted, &tolerant), None);
        let other = ExactFields {
            tolerated: &[("left", Some("0"))],
            ..tolerant.clone()
        };
        let removed = Some(json!({"metadata": {"uid": "u"}, "spec": {"left": null}}));
        assert_eq!(exact_patch(&live, &wanted, &other), removed);
        let any = ExactFields {
            tolerated: &[("left", None)],
            ..tolerant
        };
        assert_eq!(exact_patch(&live, &wanted, &any), None);
    }

    #[test]
    fn an_update_replaces_roots_and_leaves_what_others_have_in_the_metadata() {
        let body = json!({"apiVersion": "x/v1", "kind": "X", "status": {"x": 1}, "spec": {"a": null},
            "metadata": {"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
                "labels": {"x.y/a~b": "1"}, "annotations": {"gone": null}}});
        assert_eq!(
            json!(update_operations(&body)),
            json!([
                {"op": "add", "path": "/metadata/annotations/gone", "value": ""},
                {"op": "remove", "path": "/metadata/annotations/gone"},
                {"op": "add", "path": "/metadata/labels/x.y~1a~0b", "value": "1"},
                {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/metadata/uid", "value": "u"},
                {"op": "add", "path": "/spec", "value": {"a": null}},
            ])
        );
        let live = |metadata: Value| object(metadata, json!({}));
        let version = json!({"op": "add", "path": "/metadata/resourceVersion", "value": "8"});
        assert_eq!(
            absent_maps(&live(json!({"resourceVersion": "8", "labels": {"a": "b"}}))),
            [
                version.clone(),
                json!({"op": "add", "path": "/metadata/annotations", "value": {}})
            ]
        );
        let both = json!({"resourceVersion": "8", "labels": {"a": "b"}, "annotations": {"a": "b"}});
        assert_eq!(absent_maps(&live(both)), [version]);
    }

    #[test]
    fn of_the_roots_that_an_update_lacks_only_metadata_and_status_stay() {
        let wanted = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {}, "spec": {"x": 1}});
        let live = |data: Value| object(json!({"annotations": {"theirs": "y"}}), data);
        assert_eq!(
            other_roots(
                &live(json!({"spec": {"y": 1}, "extra": {"y": 2}, "status": {"z": 3}})),
                &wanted
            ),
            Some(json!({"metadata": {"uid": "u"}, "extra": null}))
        );
        assert_eq!(
            other_roots(&live(json!({"spec": {"x": 1}, "status": {"z": 3}})), &wanted),
            None
        );
    }

    fn object(mut metadata: Value, mut data: Value) -> DynamicObject {
        metadata["uid"] = json!("u");
        data["metadata"] = metadata;
        data["apiVersion"] = json!("x/v1");
        data["kind"] = json!("X");
        serde_json::from_value(data).unwrap()
    }
}
