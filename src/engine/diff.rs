//! Comparing without keeping: digests of JSON values, and the merge patch that turns one value into another.

use super::plan::Exact;
use serde_json::{Map, Value};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

/// Keyed anew in each process, so that no tenant can prepare two values with one digest.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A digest of what a comparison needs; meaningful within this process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(u64);

impl Digest {
    /// The digest of a JSON value; the order of its maps does not matter.
    pub fn of(value: &Value) -> Self {
        let mut hasher = KEYS.build_hasher();
        feed(value, &mut hasher);
        Self(hasher.finish())
    }

    /// The digest of anything that can be hashed.
    pub fn of_hash(value: &impl Hash) -> Self {
        Self(KEYS.hash_one(value))
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
            // serde_json's map is sorted unless a dependency turns on its `preserve_order`.
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
                match from.get(key) {
                    Some(had) => {
                        if let Some(inner) = merge_patch(had, wanted) {
                            patch.insert(key.clone(), inner);
                        }
                    }
                    None => {
                        patch.insert(key.clone(), wanted.clone());
                    }
                }
            }
            for key in from.keys().filter(|k| !to.contains_key(*k)) {
                patch.insert(key.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (from, to) => (from != to).then(|| to.clone()),
    }
}

/// The merge patch that makes what is `exact` in `live` that of `wanted`; `None` if it is.
pub fn exact_patch(live: &Value, wanted: &Value, exact: &Exact) -> Option<Value> {
    let Exact { roots, tolerated } = exact;
    let mut patch = Map::new();
    for root in roots {
        let (live, wanted) = (live.get(root), wanted.get(root));
        match (live, wanted) {
            (Some(live), Some(wanted)) => {
                let mut inner = merge_patch(live, wanted);
                if let Some(Value::Object(inner)) = &mut inner {
                    inner.retain(|key, value| {
                        !(value.is_null() && Exact::tolerates(tolerated, key, &live[key]))
                    });
                }
                if let Some(inner) = inner.filter(|i| i.as_object().is_none_or(|m| !m.is_empty())) {
                    patch.insert(root.clone(), inner);
                }
            }
            (None, Some(wanted)) => {
                patch.insert(root.clone(), wanted.clone());
            }
            (Some(_), None) => {
                patch.insert(root.clone(), Value::Null);
            }
            (None, None) => {}
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
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
        let live = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1, "left": 2}});
        let wanted = json!({"metadata": {}, "spec": {"x": 1}});
        assert_eq!(
            exact_patch(&live, &wanted, &Exact::roots(["spec"])),
            Some(json!({"spec": {"left": null}}))
        );
        assert_eq!(exact_patch(&live, &wanted, &Exact::default()), None);
        let tolerant = Exact {
            roots: vec!["spec".into()],
            tolerated: &[("left", Some("2"))],
        };
        assert_eq!(exact_patch(&live, &wanted, &tolerant), None);
        let other = Exact {
            tolerated: &[("left", Some("0"))],
            ..tolerant.clone()
        };
        let removed = Some(json!({"spec": {"left": null}}));
        assert_eq!(exact_patch(&live, &wanted, &other), removed);
        let any = Exact {
            tolerated: &[("left", None)],
            ..tolerant
        };
        assert_eq!(exact_patch(&live, &wanted, &any), None);
    }
}
