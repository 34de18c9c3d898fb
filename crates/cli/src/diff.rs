//! The difference between two objects, field by field (contract: cli.md §7).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt};

/// A changed field. Its JSON has a field `op` besides, which says the same in a word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Value")]
pub(crate) struct Change {
    /// The field, e.g. `spec.placements[us].scaleSettings.minReplicas`.
    pub(crate) path: String,
    /// The value before; `None` if the field is new.
    pub(crate) old: Option<Value>,
    /// The value after; `None` if the field goes.
    pub(crate) new: Option<Value>,
}

impl From<Change> for Value {
    fn from(Change { path, old, new }: Change) -> Self {
        let op = match (&old, &new) {
            (None, _) => "add",
            (_, None) => "remove",
            _ => "change",
        };
        let mut fields = json!({"path": path, "op": op});
        for (side, value) in [("old", old), ("new", new)] {
            if let Some(value) = value {
                fields[side] = value;
            }
        }
        fields
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, old, new } = self;
        match (old, new) {
            (None, Some(new)) => write!(f, "+ {path}: {}", text(new)),
            (Some(old), None) => write!(f, "- {path}: {}", text(old)),
            (Some(old), Some(new)) => write!(f, "~ {path}: {} -> {}", text(old), text(new)),
            (None, None) => Ok(()),
        }
    }
}

/// A value in a line: a text without quotes, unless it is empty.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}

/// The changes of labels, annotations and spec from `old` to `new`; `None` is an object that does not exist.
pub(crate) fn changes(old: Option<&Value>, new: &Value) -> Vec<Change> {
    let part = |object: Option<&Value>, pointer| object.and_then(|object| object.pointer(pointer)).cloned();
    let mut changes = Vec::new();
    for (pointer, path) in [
        ("/metadata/labels", "metadata.labels"),
        ("/metadata/annotations", "metadata.annotations"),
        ("/spec", "spec"),
    ] {
        let (before, after) = (part(old, pointer), part(Some(new), pointer));
        compare(path, before.as_ref(), after.as_ref(), &mut changes);
    }
    changes
}

/// The changes of a spec.
pub(crate) fn spec_changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("spec", Some(old), Some(new), &mut changes);
    changes
}

/// True if nothing differs but the order of named lists and empty fields.
pub(crate) fn same(old: Option<&Value>, new: Option<&Value>) -> bool {
    let mut changes = Vec::new();
    compare("", old, new, &mut changes);
    changes.is_empty()
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, into: &mut Vec<Change>) {
    let (old, new) = (present(old), present(new));
    // An item of a list that is new or gone is shown in one line, a map or list by its fields.
    let is_item = path.ends_with(']') && (old.is_none() || new.is_none());
    match (old.or(new), new.or(old)) {
        (None, _) | (_, None) => {}
        _ if old == new => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) if !is_item => {
            let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for field in fields {
                let path = format!("{path}.{}", quoted(field));
                let at = [old, new].map(|value| value?.get(field));
                compare(&path, at[0], at[1], into);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => match (named(before), named(after)) {
            (Some(before), Some(after)) => {
                let gone = before.iter().filter(|name| !after.contains(name));
                for name in after.iter().chain(gone) {
                    let at =
                        [old, new].map(|list| list?.as_array()?.iter().find(|item| item["name"] == **name));
                    compare(&format!("{path}[{name}]"), at[0], at[1], into);
                }
            }
            _ => {
                for at in 0..before.len().max(after.len()) {
                    let path = format!("{path}[{at}]");
                    let at = [old, new].map(|list| list?.get(at));
                    compare(&path, at[0], at[1], into);
                }
            }
        },
        _ => into.push(Change {
            path: path.to_owned(),
            old: old.cloned(),
            new: new.cloned(),
        }),
    }
}

/// Null, and an empty map or list, are the same as no field.
fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    })
}

/// The names of a list's items, if each has one of its own.
fn named(list: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> = list
        .iter()
        .map(|item| item["name"].as_str())
        .collect::<Option<_>>()?;
    let unique: BTreeSet<&&str> = names.iter().collect();
    (unique.len() == names.len()).then_some(names)
}

/// A field's name in a path; one with a dot is quoted.
fn quoted(field: &str) -> String {
    if field.contains(['.', '/']) {
        format!("{field:?}")
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(old: &Value, new: &Value) -> Vec<String> {
        changes(Some(old), new).iter().map(ToString::to_string).collect()
    }

    fn web() -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {
            "placements": [{"name": "us", "cityCodes": ["DFW", "IAD"], "scaleSettings": {"minReplicas": 1}}],
            "template": {"spec": {"runtime": {"sandbox": {"containers": [
                {"name": "app", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}}}}}})
    }

    #[test]
    fn each_changed_field_is_a_line() {
        let mut new = web();
        new["metadata"]["labels"]["example.com/tier"] = json!("front");
        new["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = json!(2);
        new["spec"]["placements"][0]["cityCodes"] = json!(["DFW"]);
        let container = &mut new["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
        container["env"] = json!([{"name": "C", "value": ""}, {"name": "A", "value": "1"}]);
        assert_eq!(
            lines(&web(), &new),
            [
                "+ metadata.labels.\"example.com/tier\": front",
                "- spec.placements[us].cityCodes[1]: IAD",
                "~ spec.placements[us].scaleSettings.minReplicas: 1 -> 2",
                "+ spec.template.spec.runtime.sandbox.containers[app].env[C]: {\"name\":\"C\",\"value\":\"\"}",
                "- spec.template.spec.runtime.sandbox.containers[app].env[B]: {\"name\":\"B\",\"value\":\"2\"}",
            ]
        );
    }

    #[test]
    fn the_order_of_a_named_list_and_empty_fields_are_no_difference() {
        let mut new = web();
        let container = &mut new["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0];
        container["env"] = json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]);
        container["ports"] = json!([]);
        new["metadata"]["annotations"] = json!({});
        assert_eq!(lines(&web(), &new), [""; 0]);
    }

    #[test]
    fn an_object_that_does_not_exist_is_all_new() {
        let all = changes(None, &web());
        assert!(all.iter().all(|change| change.old.is_none()), "{all:?}");
        let paths: Vec<&str> = all.iter().map(|change| &*change.path).collect();
        assert_eq!(
            paths,
            [
                "metadata.labels.app",
                "spec.placements[us]",
                "spec.template.spec.runtime.sandbox.containers[app]"
            ]
        );
        let fields = serde_json::to_value(&all[0]).unwrap();
        assert_eq!(
            fields,
            json!({"path": "metadata.labels.app", "op": "add", "new": "web"})
        );
        assert_eq!(serde_json::from_value::<Change>(fields).unwrap(), all[0]);
    }

    /// Values without lists of objects, whose order may be none, and without empty fields, which are none.
    fn values() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (-9_i64..9).prop_map(Value::from),
            "[a-z.]{1,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone().prop_filter("no objects", |v| !v.is_object()), 1..3)
                    .prop_map(Value::from),
                proptest::collection::btree_map("[a-z./]{1,3}", inner, 1..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn a_difference_is_empty_exactly_if_nothing_changes(old in values(), new in values()) {
            proptest::prop_assert_eq!(same(Some(&old), Some(&new)), old == new);
            proptest::prop_assert!(same(Some(&old), Some(&old)));
            let changes = spec_changes(&old, &new);
            for change in changes {
                proptest::prop_assert!(change.old != change.new, "{}", change);
            }
        }
    }
}
