//! The values of the chart as a page of the reference.

use super::{
    Flags,
    values::{self, Entry},
};
use serde_json::Value;
use std::fmt::Write;

/// A table of all values with type, default and meaning; a section is a row without both.
pub fn values_table(flags: &Flags) -> String {
    let mut table = String::from("| value | type | default | meaning |\n|---|---|---|---|\n");
    for entry in values::in_order(&values::all(flags)) {
        let Entry {
            path,
            default,
            meaning,
            schema,
        } = entry;
        let (kind, default) = match (schema, default) {
            (None, _) => ("–".to_owned(), "–".to_owned()),
            (Some(schema), None) => (kind_of(schema), "required".to_owned()),
            (Some(schema), Some(default)) => (kind_of(schema), code(default)),
        };
        let meaning = meaning.replace('|', "\\|");
        let _ = writeln!(table, "| `{path}` | {kind} | {default} | {meaning} |");
    }
    table
}

fn code(value: &Value) -> String {
    format!("`{value}`").replace('|', "\\|")
}

/// The type of a value, or the values it may have.
fn kind_of(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(code).collect::<Vec<_>>().join(", ");
    }
    let kind = schema["type"].as_str().unwrap_or_default();
    let items = &schema["items"];
    if items.is_object() {
        return format!("{kind} of {}", kind_of(items));
    }
    let bound = |name: &str| schema[name].as_i64();
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("{kind}, {least} to {most}"),
        (Some(least), None) => format!("{kind}, at least {least}"),
        (None, _) => kind.to_owned(),
    }
}
