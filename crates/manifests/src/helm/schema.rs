//! The schema of the chart's values: what is not in it is refused, by its path.

use super::{
    Flags,
    values::{self, Entry},
};
use serde_json::{Map, Value, json};

/// The schema of all values.
pub(super) fn of(flags: &Flags) -> Value {
    let mut root = closed();
    for entry in values::all(flags) {
        place(&mut root, &entry);
    }
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    root["title"] = json!("Values of the chart fedgate");
    // A parent chart sets both.
    root["properties"]["global"] = json!({
        "type": "object",
        "description": "Values of a parent chart for all its parts; nothing of it is read.",
    });
    let enabled = "For the condition of a parent chart, which leaves this chart out while it is false.";
    root["properties"]["enabled"] = json!({"type": "boolean", "const": true, "description": enabled});
    root["required"] = json!(["planes"]);
    root["allOf"] = json!(rules());
    root
}

fn closed() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {}})
}

fn place(root: &mut Value, entry: &Entry) {
    let mut parts: Vec<&str> = entry.path.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let mut node = root;
    for part in parts {
        node = &mut node["properties"][part];
    }
    let mut schema = entry.schema.clone().unwrap_or_else(closed);
    schema["description"] = json!(entry.meaning);
    if let Some(default) = &entry.default {
        schema["default"] = default.clone();
    }
    node["properties"][last] = schema;
}

/// Demands of one value on another.
fn rules() -> Vec<Value> {
    let on = |plane: &str, then: Value| {
        json!({
            "if": {"properties": {"planes": {"contains": {"const": plane}}}, "required": ["planes"]},
            "then": {"properties": then},
        })
    };
    let single = |role: &str| {
        json!({
            "if": {"properties": {role: {"properties": {"flags": {
                "properties": {"leader-elect": {"const": false}}, "required": ["leader-elect"],
            }}, "required": ["flags"]}}, "required": [role]},
            "then": {"properties": {role: {"properties": {"replicas": {"maximum": 1}}}}},
        })
    };
    let named = json!({"minLength": 1});
    vec![
        on("host", json!({"hub": {"properties": {"existingSecret": named}}})),
        json!({
            "if": {"properties": {"projects": {"properties": {"mode": {"enum": ["single", "directory"]}},
                "required": ["mode"]}}, "required": ["projects"]},
            "then": {"properties": {"projects": {"properties": {"existingSecret": named}}}},
        }),
        single("gateway"),
        single("cell"),
    ]
}

/// The schema of a Kubernetes type, with every field known. Its title is the type's name, whose fields Kubernetes explains.
pub(super) fn of_type<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    close(&mut schema);
    let name = T::schema_name();
    schema["title"] = json!(name.rsplit('.').next().unwrap_or(&name));
    schema
}

/// Refuses unknown fields of objects, and leaves texts to the types' own documents.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let is_schema = fields.contains_key("type") || fields.contains_key("properties");
            if is_schema {
                fields.retain(|name, value| {
                    !(["description", "title", "format"].contains(&name.as_str()) && value.is_string())
                });
                nullable(fields);
            }
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(values) => values.iter_mut().for_each(close),
        _ => {}
    }
}

/// A field that is left out is not there; `null` is no value of a file.
fn nullable(fields: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = fields.get_mut("type") else {
        return;
    };
    types.retain(|name| name != "null");
    if let [one] = &types[..] {
        let one = one.clone();
        fields.insert("type".to_owned(), one);
    }
}
