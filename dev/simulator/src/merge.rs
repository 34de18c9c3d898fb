//! JSON merge patches (RFC 7386) and JSON patches (RFC 6902).

pub(crate) use fedgate_karmada::merge;
use serde_json::{Map, Value};

/// The merge patch that makes one value of another, with `null` for each key that goes.
pub(crate) fn replacing(from: &Value, to: &Value) -> Value {
    let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else {
        return to.clone();
    };
    let gone = from.keys().filter(|key| !to.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in to {
        patch.insert(
            key.clone(),
            replacing(from.get(key).unwrap_or(&Value::Null), value),
        );
    }
    Value::Object(patch)
}

/// Carries out a JSON patch; the error is a sentence.
pub(crate) fn patch(target: &mut Value, operations: &Value) -> Result<(), String> {
    let operations = operations.as_array().ok_or("a JSON patch is a list")?;
    operations
        .iter()
        .try_for_each(|operation| step(target, operation))
}

fn step(target: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |key: &str| operation[key].as_str().unwrap_or_default();
    let path = text("path");
    let value = || operation["value"].clone();
    match text("op") {
        "test" if target.pointer(path).unwrap_or(&Value::Null) == &operation["value"] => Ok(()),
        "test" => Err(format!("testing value {path} failed: test failed")),
        "add" => add(target, path, value()),
        "remove" => take(target, path).map(drop),
        "replace" => {
            let at = target.pointer_mut(path).ok_or_else(|| missing("replace", path))?;
            *at = value();
            Ok(())
        }
        "move" => {
            let moved = take(target, text("from"))?;
            add(target, path, moved)
        }
        "copy" => {
            let from = text("from");
            let copied = target
                .pointer(from)
                .cloned()
                .ok_or_else(|| missing("copy", from))?;
            add(target, path, copied)
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn missing(operation: &str, path: &str) -> String {
    format!("{operation} operation does not apply: doc is missing key: {path}: missing value")
}

/// The value that holds the last step of a path, and that step.
fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    Some((target.pointer_mut(parent)?, last))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let refused = || missing("add", path);
    match parent(target, path).ok_or_else(refused)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(list), key) => {
            let at = if key == "-" {
                list.len()
            } else {
                key.parse().map_err(|_| refused())?
            };
            if at > list.len() {
                return Err(refused());
            }
            list.insert(at, value);
        }
        _ => return Err(refused()),
    }
    Ok(())
}

fn take(target: &mut Value, path: &str) -> Result<Value, String> {
    let refused = || missing("remove", path);
    match parent(target, path).ok_or_else(refused)? {
        (Value::Object(map), key) => map.remove(&key).ok_or_else(refused),
        (Value::Array(list), key) => {
            let at: usize = key.parse().map_err(|_| refused())?;
            if at >= list.len() {
                return Err(refused());
            }
            Ok(list.remove(at))
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_takes_away_and_maps_are_merged() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        merge(
            &mut target,
            &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3]}),
        );
        assert_eq!(target, json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3]}));
    }

    #[test]
    fn operations_are_carried_out_in_turn() {
        let mut target = json!({"a": {"x/y": 1}, "l": [1, 2]});
        let operations = json!([
            {"op": "test", "path": "/a/x~1y", "value": 1},
            {"op": "replace", "path": "/a/x~1y", "value": 2},
            {"op": "add", "path": "/l/0", "value": 0},
            {"op": "add", "path": "/l/-", "value": 3},
            {"op": "remove", "path": "/l/1"},
            {"op": "move", "from": "/a", "path": "/b"},
            {"op": "copy", "from": "/b", "path": "/c"},
        ]);
        assert_eq!(patch(&mut target, &operations), Ok(()));
        assert_eq!(target, json!({"b": {"x/y": 2}, "c": {"x/y": 2}, "l": [0, 2, 3]}));
    }

    #[test]
    fn a_failed_test_is_an_error() {
        let mut target = json!({"a": 1});
        assert!(patch(&mut target, &json!([{"op": "test", "path": "/a", "value": 2}])).is_err());
        assert!(patch(&mut target, &json!([{"op": "remove", "path": "/b"}])).is_err());
    }

    #[test]
    fn a_replacing_patch_takes_away_what_the_new_value_lacks() {
        let (from, to) = (
            json!({"a": {"b": 1, "c": 2}, "d": 3}),
            json!({"a": {"c": 4}, "e": [5]}),
        );
        let patch = replacing(&from, &to);
        assert_eq!(patch, json!({"a": {"b": null, "c": 4}, "d": null, "e": [5]}));
        let mut made = from;
        merge(&mut made, &patch);
        assert_eq!(made, to);
    }
}
