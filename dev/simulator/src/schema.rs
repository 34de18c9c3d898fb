//! What is known of a kind's fields: which there are, how lists and maps merge, what is filled in.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The schema of one field.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) form: Form,
    default: Option<Value>,
    nullable: bool,
}

/// What a field holds.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// Anything; maps merge by key and lists are replaced whole.
    Any,
    /// Text, a number or a truth value.
    Scalar,
    /// An object with named fields, with any keys (`rest`), or both.
    Object {
        fields: BTreeMap<String, Schema>,
        rest: Option<Box<Schema>>,
        /// The object is owned and replaced whole.
        atomic: bool,
    },
    /// A list.
    List { items: Box<Schema>, merge: Merge },
}

/// How two versions of a list become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Merge {
    /// The newer replaces the older.
    Atomic,
    /// Each value is there once.
    Set,
    /// Items with the same values of these fields are the same.
    Keyed(Vec<String>),
}

/// An item's way into an answer to "does this schema know the field?".
static ANY: Schema = Schema {
    form: Form::Any,
    default: None,
    nullable: true,
};

impl Schema {
    /// Nothing is known.
    pub(crate) fn any() -> &'static Self {
        &ANY
    }

    /// Reads the schema of a field in the language of a `CustomResourceDefinition`.
    pub(crate) fn parse(schema: &Value) -> Self {
        let truth = |key: &str| schema[key].as_bool().unwrap_or(false);
        let open = truth("x-kubernetes-preserve-unknown-fields");
        let form = if truth("x-kubernetes-int-or-string") {
            Form::Scalar
        } else if schema["type"] == "array" {
            Form::List {
                items: Box::new(Self::parse(&schema["items"])),
                merge: Merge::parse(schema),
            }
        } else if schema["type"] == "object" || schema["properties"].is_object() {
            Self::object(schema, open)
        } else if open || schema["type"].is_null() {
            Form::Any
        } else {
            Form::Scalar
        };
        Self {
            form,
            default: schema.get("default").cloned(),
            nullable: truth("nullable"),
        }
    }

    fn object(schema: &Value, open: bool) -> Form {
        let mut fields: BTreeMap<String, Self> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, field)| (name.clone(), Self::parse(field)))
            .collect();
        if schema["x-kubernetes-embedded-resource"] == true {
            for (name, field) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "")] {
                fields
                    .entry(name.to_owned())
                    .or_insert_with(|| Self::parse(&json!({"type": field})));
            }
        }
        let rest = match &schema["additionalProperties"] {
            rest @ Value::Object(_) => Some(Box::new(Self::parse(rest))),
            Value::Bool(true) => Some(Box::new(ANY.clone())),
            _ if open => Some(Box::new(ANY.clone())),
            _ => None,
        };
        Form::Object {
            fields,
            rest,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
        }
    }

    /// The schema of a whole object: `fields` beside what every object has.
    pub(crate) fn whole(schema: &Value) -> Self {
        let mut whole = Self::parse(schema);
        if !matches!(whole.form, Form::Object { .. }) {
            whole.form = Self::object(&Value::Null, true);
        }
        if let Form::Object { fields, .. } = &mut whole.form {
            let text = || Self::parse(&json!({"type": "string"}));
            fields.insert("apiVersion".to_owned(), text());
            fields.insert("kind".to_owned(), text());
            fields.insert("metadata".to_owned(), Self::parse(&metadata()));
        }
        whole
    }

    /// The schema of an object's field, and whether it is a named one.
    pub(crate) fn field(&self, name: &str) -> Option<(&Self, bool)> {
        match &self.form {
            Form::Object { fields, rest, .. } => match (fields.get(name), rest) {
                (Some(field), _) => Some((field, true)),
                (None, Some(rest)) => Some((rest, false)),
                (None, None) => None,
            },
            Form::Any => Some((&ANY, false)),
            Form::Scalar | Form::List { .. } => None,
        }
    }

    fn takes_null(&self) -> bool {
        self.nullable || matches!(self.form, Form::Any)
    }

    /// The first field that is null and must not be, as a path such as `spec.size`.
    pub(crate) fn null(&self, value: &Value) -> Option<String> {
        let join = |step: &str, rest: String| {
            if rest.is_empty() {
                step.to_owned()
            } else {
                format!("{step}.{rest}")
            }
        };
        match (&self.form, value) {
            (Form::Object { .. }, Value::Object(map)) => map.iter().find_map(|(name, value)| {
                let (field, _) = self.field(name).filter(|_| name != "metadata")?;
                let filled = value.is_null() && field.default.is_some();
                field.null(value).filter(|_| !filled).map(|rest| join(name, rest))
            }),
            (Form::List { items, .. }, Value::Array(list)) => list
                .iter()
                .enumerate()
                .find_map(|(at, value)| items.null(value).map(|rest| join(&format!("[{at}]"), rest))),
            (_, Value::Null) => (!self.takes_null()).then(String::new),
            _ => None,
        }
    }

    /// Takes away what the schema does not know, and null where a value must be.
    pub(crate) fn prune(&self, value: &mut Value) {
        match (&self.form, value) {
            (Form::Object { .. }, Value::Object(map)) => map.retain(|name, value| {
                let Some((field, _)) = self.field(name) else {
                    return false;
                };
                field.prune(value);
                !value.is_null() || field.takes_null() || field.default.is_some()
            }),
            (Form::List { items, .. }, Value::Array(list)) => {
                for item in list {
                    items.prune(item);
                }
            }
            _ => {}
        }
    }

    /// Fills in what is missing.
    pub(crate) fn fill(&self, value: &mut Value) {
        match (&self.form, value) {
            (Form::Object { fields, rest, .. }, Value::Object(map)) => {
                for (name, field) in fields {
                    field.fill_missing(name, map);
                }
                for (name, value) in map.iter_mut() {
                    match (fields.get(name), rest) {
                        (Some(field), _) => field.fill(value),
                        (None, Some(rest)) => rest.fill(value),
                        (None, None) => {}
                    }
                }
            }
            (Form::List { items, .. }, Value::Array(list)) => {
                for item in list {
                    items.fill(item);
                }
            }
            _ => {}
        }
    }

    fn fill_missing(&self, name: &str, map: &mut Map<String, Value>) {
        let Some(default) = &self.default else { return };
        match map.get(name) {
            None => {}
            Some(Value::Null) if !self.nullable => {}
            Some(_) => return,
        }
        map.insert(name.to_owned(), default.clone());
    }

    /// The default of a field of an item, for items that are told apart by a field with a default.
    pub(crate) fn default_of(&self, name: &str) -> Option<&Value> {
        self.field(name).and_then(|(field, _)| field.default.as_ref())
    }
}

impl Merge {
    fn parse(schema: &Value) -> Self {
        let keys = || {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            keys.into_iter()
                .flatten()
                .filter_map(|key| key.as_str().map(ToOwned::to_owned))
                .collect()
        };
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Self::Set,
            Some("map") => Self::Keyed(keys()),
            _ => Self::Atomic,
        }
    }
}

/// The schema of `metadata`, the same for every kind.
fn metadata() -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({"type": "object", "properties": {
        "name": text,
        "generateName": text,
        "namespace": text,
        "uid": text,
        "resourceVersion": text,
        "generation": number,
        "creationTimestamp": {"type": "string", "nullable": true},
        "deletionTimestamp": text,
        "deletionGracePeriodSeconds": number,
        "labels": texts,
        "annotations": texts,
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                "apiVersion": text, "kind": text, "name": text, "uid": text,
                "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
            }},
        },
        "managedFields": {"type": "array", "items": {}},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gadget() -> Schema {
        Schema::whole(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "default": 3},
                "ports": {"type": "array", "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "protocol": {"type": "string", "default": "TCP"}}}},
                "free": {"x-kubernetes-preserve-unknown-fields": true},
            }},
        }}))
    }

    #[test]
    fn unknown_fields_go_and_missing_ones_come() {
        let mut object = json!({"apiVersion": "g/v1", "kind": "Gadget", "other": 1,
            "metadata": {"name": "a", "colour": "red"},
            "spec": {"ports": [{"name": "web", "x": 1}], "free": {"a": {"b": 1}}}});
        let schema = gadget();
        schema.prune(&mut object);
        schema.fill(&mut object);
        assert_eq!(
            object,
            json!({"apiVersion": "g/v1", "kind": "Gadget", "metadata": {"name": "a"},
                "spec": {"size": 3, "ports": [{"name": "web", "protocol": "TCP"}], "free": {"a": {"b": 1}}}})
        );
    }

    #[test]
    fn what_is_there_is_not_filled_in() {
        let mut object = json!({"spec": {"size": 0}});
        gadget().fill(&mut object);
        assert_eq!(object["spec"]["size"], 0);
        gadget().fill(&mut object["spec"]);
        assert_eq!(object, json!({"spec": {"size": 0}}), "no spec inside a spec");
    }
}
