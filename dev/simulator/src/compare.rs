//! What lies between two versions of an object, what an object sets, and what taking fields away leaves of it.

use crate::{
    fields::{Fields, named},
    schema::{Form, Merge, Schema},
};
use serde_json::{Map, Value};

/// The fields in which two versions differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) added: Fields,
    pub(crate) removed: Fields,
    pub(crate) modified: Fields,
}

impl Difference {
    /// What the newer version sets otherwise.
    pub(crate) fn set(&self) -> Fields {
        let mut set = self.added.clone();
        set.union(&self.modified);
        set
    }

    /// Narrows all three sets alike.
    pub(crate) fn each(&mut self, narrow: impl Fn(&mut Fields)) {
        narrow(&mut self.added);
        narrow(&mut self.removed);
        narrow(&mut self.modified);
    }
}

/// Compares two whole objects.
pub(crate) fn compare(schema: &Schema, old: &Value, new: &Value) -> Difference {
    let mut walk = Walk::default();
    walk.visit(schema, Some(old), Some(new));
    walk.found
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    found: Difference,
}

impl Walk {
    fn visit(&mut self, schema: &Schema, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        if let Some(merge) = associative(schema, old, new) {
            self.list(merge, items(schema), old, new);
        } else if granular(schema, old, new) {
            self.map(schema, old, new);
        } else {
            let set = match (old, new) {
                (None, _) => &mut self.found.added,
                (_, None) => &mut self.found.removed,
                _ => &mut self.found.modified,
            };
            return set.insert(&self.path);
        }
        if old.is_none() {
            self.found.added.insert(&self.path);
        } else if new.is_none() {
            self.found.removed.insert(&self.path);
        }
    }

    fn map(&mut self, schema: &Schema, old: Option<&Value>, new: Option<&Value>) {
        let none = Map::new();
        let old = old.and_then(Value::as_object).unwrap_or(&none);
        let new = new.and_then(Value::as_object).unwrap_or(&none);
        for (name, value) in old {
            self.descend(named(name), below(schema, name), Some(value), new.get(name));
        }
        for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
            self.descend(named(name), below(schema, name), None, Some(value));
        }
    }

    fn list(&mut self, merge: &Merge, item: &Schema, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (steps(merge, item, old), steps(merge, item, new));
        for (step, value) in &old {
            self.descend(step.clone(), item, Some(value), find(&new, step));
        }
        for (step, value) in new.iter().filter(|(step, _)| find(&old, step).is_none()) {
            self.descend(step.clone(), item, None, Some(value));
        }
    }

    fn descend(&mut self, step: String, schema: &Schema, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(step);
        self.visit(schema, old, new);
        self.path.pop();
    }
}

/// The schema of a field; anything if it is not known.
pub(crate) fn below<'a>(schema: &'a Schema, name: &str) -> &'a Schema {
    schema.field(name).map_or(Schema::any(), |(field, _)| field)
}

/// The schema of a list's items.
pub(crate) fn items(schema: &Schema) -> &Schema {
    match &schema.form {
        Form::List { items, .. } => items,
        _ => Schema::any(),
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    }
}

/// Whether the two are compared key by key. Two empty maps are not: they differ as "there" and "not there" only.
pub(crate) fn granular(schema: &Schema, old: Option<&Value>, new: Option<&Value>) -> bool {
    let fits = |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value.is_object());
    let divisible = match &schema.form {
        Form::Object { atomic, .. } => !atomic,
        Form::Any => fits(old) && fits(new),
        Form::Scalar | Form::List { .. } => false,
    };
    divisible && !(is_empty(old) && is_empty(new))
}

/// How the items of a list are told apart, if they are.
pub(crate) fn associative<'a>(
    schema: &'a Schema,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Option<&'a Merge> {
    match &schema.form {
        Form::List { merge, .. } if *merge != Merge::Atomic && !(is_empty(old) && is_empty(new)) => {
            Some(merge)
        }
        _ => None,
    }
}

/// The items of a list with the steps that lead to them. An item without its keys has no step and is left out.
pub(crate) fn steps<'a>(merge: &Merge, item: &Schema, list: Option<&'a Value>) -> Vec<(String, &'a Value)> {
    let list = list
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter()
        .filter_map(|value| Some((step(merge, item, value)?, value)))
        .collect()
}

/// The item that a step leads to.
pub(crate) fn find<'a>(list: &[(String, &'a Value)], step: &str) -> Option<&'a Value> {
    list.iter()
        .find(|(other, _)| other == step)
        .map(|(_, value)| *value)
}

/// The step to an item of a set or of a list with keys.
pub(crate) fn step(merge: &Merge, schema: &Schema, item: &Value) -> Option<String> {
    match merge {
        Merge::Atomic => None,
        Merge::Set => Some(format!("v:{item}")),
        Merge::Keyed(keys) => {
            let mut found = Map::new();
            for key in keys {
                if let Some(value) = item.get(key).or_else(|| schema.default_of(key)) {
                    found.insert(key.clone(), value.clone());
                }
            }
            (!found.is_empty()).then(|| format!("k:{}", Value::Object(found)))
        }
    }
}

/// The fields that an object sets.
pub(crate) fn collect(schema: &Schema, object: &Value) -> Fields {
    let mut fields = Fields::default();
    gather(schema, object, &mut Vec::new(), &mut fields);
    fields
}

fn gather(schema: &Schema, value: &Value, path: &mut Vec<String>, fields: &mut Fields) {
    let some = Some(value);
    if let (Some(merge), Value::Array(list)) = (associative(schema, some, some), value) {
        let item = items(schema);
        for value in list {
            if let Some(step) = step(merge, item, value) {
                path.push(step);
                gather(item, value, path, fields);
                fields.insert(path);
                path.pop();
            }
        }
        return;
    }
    match value {
        Value::Object(map) if granular(schema, some, some) => {
            for (name, value) in map {
                let field = schema.field(name);
                path.push(named(name));
                gather(below(schema, name), value, path, fields);
                let hollow = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if hollow || !field.is_some_and(|(_, declared)| declared) {
                    fields.insert(path);
                }
                path.pop();
            }
        }
        // An empty map or list sets nothing by itself; what holds it counts it.
        _ if undivided(schema, value) => fields.insert(path),
        _ => {}
    }
}

/// Whether a value is set as one: not an empty map or list whose parts would be set one by one.
fn undivided(schema: &Schema, value: &Value) -> bool {
    match &schema.form {
        Form::Object { atomic, .. } => *atomic,
        Form::List { merge, .. } => *merge == Merge::Atomic,
        Form::Any => !value.is_object(),
        Form::Scalar => true,
    }
}

/// The set with every declared field on the way to its places: who owns `.spec.size` holds `.spec` as well.
pub(crate) fn with_parents(schema: &Schema, fields: &Fields) -> Fields {
    fields.map(|step, below_it| {
        let name = step.strip_prefix("f:");
        let field = name.and_then(|name| schema.field(name));
        let inner = field.map_or_else(|| items(schema), |(field, _)| field);
        let more = with_parents(inner, below_it);
        let declared = field.is_some_and(|(_, declared)| declared);
        if declared && below_it.steps().next().is_some() {
            more.marked()
        } else {
            more
        }
    })
}

/// What is left of a value when the fields are taken away. A map or list that becomes empty by that is null.
pub(crate) fn remove(schema: &Schema, value: &Value, fields: &Fields) -> Value {
    let some = Some(value);
    if let (Some(merge), Value::Array(list)) = (associative(schema, some, some), value) {
        let item = items(schema);
        let left: Vec<Value> = list
            .iter()
            .filter_map(|value| {
                let step = step(merge, item, value);
                shrink(item, value, step.and_then(|step| fields.step(&step)))
            })
            .collect();
        return if left.is_empty() {
            Value::Null
        } else {
            Value::Array(left)
        };
    }
    match value {
        Value::Object(map) if granular(schema, some, some) => {
            let left: Map<String, Value> = map
                .iter()
                .filter_map(|(name, value)| {
                    let inner = fields.step(&named(name));
                    Some((name.clone(), shrink(below(schema, name), value, inner)?))
                })
                .collect();
            if left.is_empty() {
                Value::Null
            } else {
                Value::Object(left)
            }
        }
        _ => value.clone(),
    }
}

fn shrink(schema: &Schema, value: &Value, fields: Option<&Fields>) -> Option<Value> {
    match fields {
        None => Some(value.clone()),
        Some(fields) if fields.has_own() => None,
        Some(fields) => Some(remove(schema, value, fields)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::whole(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "args": {"type": "array", "items": {"type": "string"}},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties":
                        {"name": {"type": "string"}, "port": {"type": "integer"}}}},
            }}}}),
        )
    }

    #[test]
    fn a_difference_names_fields_and_items() {
        let old = json!({"metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {"size": 1, "args": ["x"], "ports": [{"name": "web", "port": 80}]}});
        let new = json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["f"]},
            "spec": {"size": 2, "args": ["x", "y"], "ports": [{"name": "web", "port": 81}, {"name": "db"}]}});
        let found = compare(&schema(), &old, &new);
        assert_eq!(
            found.added.paths(),
            [
                ".metadata.finalizers",
                ".metadata.finalizers[=\"f\"]",
                ".spec.ports[name=\"db\"]",
                ".spec.ports[name=\"db\"].name",
            ]
        );
        assert_eq!(found.removed.paths(), [".metadata.labels.b"]);
        assert_eq!(
            found.modified.paths(),
            [".spec.args", ".spec.ports[name=\"web\"].port", ".spec.size"]
        );
        assert_eq!(compare(&schema(), &old, &old), Difference::default());
    }

    #[test]
    fn an_object_sets_leaves_items_and_keys() {
        let object = json!({"metadata": {"labels": {"a": "1"}},
            "spec": {"args": [], "ports": [{"name": "web", "port": 80}]}});
        assert_eq!(
            collect(&schema(), &object).paths(),
            [
                ".metadata.labels.a",
                ".spec.args",
                ".spec.ports[name=\"web\"]",
                ".spec.ports[name=\"web\"].name",
                ".spec.ports[name=\"web\"].port",
            ]
        );
    }

    #[test]
    fn what_is_taken_goes_and_what_becomes_empty_is_null() {
        let object = json!({"metadata": {"name": "n", "labels": {"a": "1"}}, "spec": {"size": 1}});
        let gone = Fields::parse(&json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {}}));
        assert_eq!(
            remove(&schema(), &object, &gone),
            json!({"metadata": {"name": "n", "labels": null}})
        );
    }

    #[test]
    fn parents_are_declared_fields_only() {
        let fields = Fields::parse(&json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        assert_eq!(
            with_parents(&schema(), &fields).paths(),
            [".metadata", ".metadata.labels", ".metadata.labels.a"]
        );
    }
}
