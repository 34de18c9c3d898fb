//! Schemas of custom resource definitions as JSON: finding a place in one, and what the derive leaves to do.

use serde_json::{Map, Value, json};

/// A path that names no place in a schema: the types and a table of this module have drifted apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the generated schema has no field {path:?}, which a table in crates/api/src names; correct the table"
)]
pub struct SchemaError {
    /// The path as the table has it.
    pub path: String,
}

/// Finds the schema at a path such as `spec.placements[].cityCodes[]` or `metadata.labels{}`.
///
/// `[]` steps into the items of a list, `{}` into the values of a map; the empty path is the schema itself.
pub(super) fn at<'a>(schema: &'a mut Value, path: &str) -> Result<&'a mut Map<String, Value>, SchemaError> {
    find(schema, path).ok_or_else(|| SchemaError {
        path: path.to_owned(),
    })
}

/// Expands a path with alternatives: `(a|b).c` gives `a.c` and `b.c`.
pub(super) fn expand_alternatives(path: &str) -> Vec<String> {
    let choice = path
        .split_once('(')
        .and_then(|(before, rest)| Some((before, rest.split_once(')')?)));
    let Some((before, (choices, after))) = choice else {
        return vec![path.to_owned()];
    };
    let choices = choices.split('|');
    choices
        .flat_map(|one| expand_alternatives(&format!("{before}{one}{after}")))
        .collect()
}

fn find<'a>(schema: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    let mut here = schema;
    for segment in path.split('.').filter(|s| !s.is_empty()) {
        let name = segment.trim_end_matches(['[', ']', '{', '}']);
        here = here.get_mut("properties")?.get_mut(name)?;
        for step in segment.as_bytes()[name.len()..].chunks(2) {
            here = here.get_mut(if step == b"[]" {
                "items"
            } else {
                "additionalProperties"
            })?;
        }
    }
    here.as_object_mut()
}

/// Brings a derived schema into the form that Go's generator gives the same types: no `nullable` (an absent field is
/// left out, never null), and integer-or-string spelt out as the API server publishes it.
pub(super) fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("nullable");
            if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
                map.insert(
                    "anyOf".to_owned(),
                    json!([{"type": "integer"}, {"type": "string"}]),
                );
                return;
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
