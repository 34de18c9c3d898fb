//! Comparisons of JSON values: digests, which replace a stored copy, and the merge patch that turns one value into
//! another.

use super::{plan::ExactFields, random::Random};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    hash::{BuildHasher, Hash, Hasher},
};

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
    let had = live.metadata.annotations.as_ref();
    let stale: Map<String, Value> = exact
        .absent_annotations
        .iter()
        .filter(|key| had.is_some_and(|had| had.contains_key(*key)))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    let mut patch = roots_patch(&live.data, wanted, exact);
    if patch.is_empty() && stale.is_empty() {
        return None;
    }
    let mut metadata = Map::new();
    metadata.insert("uid".into(), json!(live.metadata.uid));
    if !stale.is_empty() {
        metadata.insert("annotations".into(), Value::Object(stale));
    }
    patch.insert("metadata".into(), Value::Object(metadata));
    Some(Value::Object(patch))
}

fn roots_patch(live: &Value, wanted: &Value, exact: &ExactFields) -> Map<String, Value> {
    let ExactFields { roots, tolerated, .. } = exact;
    let payload = [live, wanted]
        .into_iter()
        .filter(|_| exact.payload)
        .flat_map(|v| v.as_object().into_iter().flat_map(Map::keys))
        .filter(|root| is_payload(root));
    let mut patch = Map::new();
    for root in roots.iter().chain(payload).collect::<BTreeSet<_>>() {
        let change = match (live.get(root), wanted.get(root)) {
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
    patch
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
            ..ExactFields::default()
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
    fn what_must_be_absent_goes_whoever_owns_it_and_costs_nothing_where_it_is_not() {
        let wanted = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {}, "spec": {"x": 1}});
        let exact = ExactFields::payload(vec!["suspended".into(), "error".into()]);
        let live = object(
            json!({"annotations": {"suspended": "true", "theirs": "y"}}),
            json!({"spec": {"x": 1}, "extra": {"y": 2}, "status": {"z": 3}}),
        );
        assert_eq!(
            exact_patch(&live, &wanted, &exact),
            Some(json!({"metadata": {"uid": "u", "annotations": {"suspended": null}}, "extra": null}))
        );
        let live = object(
            json!({"annotations": {"theirs": "y"}}),
            json!({"spec": {"x": 1}, "status": {"z": 3}}),
        );
        assert_eq!(exact_patch(&live, &wanted, &exact), None);
    }

    fn object(mut metadata: Value, mut data: Value) -> DynamicObject {
        metadata["uid"] = json!("u");
        data["metadata"] = metadata;
        data["apiVersion"] = json!("x/v1");
        data["kind"] = json!("X");
        serde_json::from_value(data).unwrap()
    }
}
