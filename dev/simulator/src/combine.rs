//! The object that results when an applied configuration is laid over a live object.

use crate::{
    compare::{associative, below, find, granular, items, steps},
    schema::Schema,
};
use serde_json::{Map, Value};

/// Lays `over` over `base`: what `over` does not mention stays.
pub(crate) fn combine(schema: &Schema, base: &Value, over: &Value) -> Value {
    if let (Some(merge), Value::Array(_)) = (associative(schema, Some(base), Some(over)), over) {
        let item = items(schema);
        let (live, wanted) = (steps(merge, item, Some(base)), steps(merge, item, Some(over)));
        let order = interleave(&live, &wanted);
        let merged = order
            .iter()
            .map(|step| match (find(&live, step), find(&wanted, step)) {
                (Some(base), Some(over)) => combine(item, base, over),
                (Some(only), None) | (None, Some(only)) => only.clone(),
                (None, None) => Value::Null,
            });
        return Value::Array(merged.collect());
    }
    match (base, over) {
        (Value::Object(base), Value::Object(more)) if granular(schema, None, Some(over)) => {
            let mut merged: Map<String, Value> = base.clone();
            for (name, value) in more {
                let value = match base.get(name) {
                    Some(old) => combine(below(schema, name), old, value),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        // An empty map or list mentions nothing.
        (_, Value::Object(empty)) if empty.is_empty() && granular(schema, None, Some(base)) => base.clone(),
        _ => over.clone(),
    }
}

/// The order of a merged list: items of the configuration stand in its order; each other item stays before the item
/// that it stood before.
fn interleave(live: &[(String, &Value)], wanted: &[(String, &Value)]) -> Vec<String> {
    let mut order: Vec<String> = Vec::with_capacity(live.len().max(wanted.len()));
    let is_live = |step: &str| find(live, step).is_some();
    let is_wanted = |step: &str| find(wanted, step).is_some();
    let mut shared = wanted
        .iter()
        .filter(|(step, _)| is_live(step))
        .map(|(step, _)| step);
    let mut next_shared = shared.next();
    let (mut l, mut w) = (0, 0);
    while l < live.len() || w < wanted.len() {
        if let Some((step, _)) = live.get(l) {
            if !is_wanted(step) {
                order.push(step.clone());
                l += 1;
                continue;
            }
            let stands_elsewhere = w < wanted.len() && next_shared.is_some_and(|next| next != step);
            if order.contains(step) || stands_elsewhere {
                l += 1;
                continue;
            }
        }
        let Some((step, _)) = wanted.get(w) else {
            l += 1;
            continue;
        };
        if live.get(l).is_some_and(|(other, _)| other == step) {
            l += 1;
        }
        if next_shared == Some(step) {
            next_shared = shared.next();
        }
        order.push(step.clone());
        w += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(list: &[(String, Value)]) -> Vec<(String, &Value)> {
        list.iter().map(|(name, value)| (name.clone(), value)).collect()
    }

    fn order(live: &[&str], wanted: &[&str]) -> Vec<String> {
        let none = Value::Null;
        let list = |names: &[&str]| -> Vec<(String, Value)> {
            names
                .iter()
                .map(|name| ((*name).to_owned(), none.clone()))
                .collect()
        };
        let (live, wanted) = (list(live), list(wanted));
        interleave(&view(&live), &view(&wanted))
    }

    #[test]
    fn the_configuration_gives_the_order() {
        assert_eq!(order(&["a", "b", "c"], &["b"]), ["a", "b", "c"]);
        assert_eq!(order(&["a", "b"], &["c"]), ["a", "b", "c"]);
        assert_eq!(order(&["a", "b"], &["b", "a"]), ["b", "a"]);
        assert_eq!(order(&["a", "x", "b"], &["b", "a"]), ["x", "b", "a"]);
        assert_eq!(order(&[], &["b", "a"]), ["b", "a"]);
        assert_eq!(order(&["a"], &["n", "a"]), ["n", "a"]);
    }

    #[test]
    fn maps_and_keyed_lists_are_joined_others_replaced() {
        let schema = Schema::whole(
            &json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"args": {"type": "array", "items": {"type": "string"}}}}}}),
        );
        let live =
            json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["x"]}, "spec": {"args": ["1", "2"]}});
        let over = json!({"metadata": {"labels": {"b": "2"}, "finalizers": ["y"]}, "spec": {"args": ["3"]}});
        assert_eq!(
            combine(&schema, &live, &over),
            json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]}, "spec": {"args": ["3"]}})
        );
        assert_eq!(
            combine(&schema, &live, &json!({"metadata": {"labels": {}}})),
            live
        );
    }
}
