//! `kubectl get`: tables that the API server renders.

use super::kinds::Kind;
use crate::SandboxError;
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// `meta.k8s.io/v1` Table, as far as it is printed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    /// Columns above 0 are for `-o wide`.
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

/// What `kubectl get` shows of a kind in a namespace, with the command that does it.
pub(super) async fn get(
    client: &Client,
    plane: &str,
    kind: &Kind,
    namespace: &str,
) -> Result<String, SandboxError> {
    let resource = kind.resource();
    let api = kind.api(client.clone(), namespace);
    let request = Request::get(api.resource_url())
        .header("Accept", TABLE)
        .body(Vec::new())
        .map_err(|e| SandboxError::Demo(format!("no request for {}: {e}", resource.plural)))?;
    let action = format!("get {} as a table", resource.plural);
    let table: Table = client
        .request(request)
        .await
        .map_err(SandboxError::api(plane, action))?;
    Ok(format!(
        "$ kubectl --context {plane} -n {namespace} get {}\n{}",
        resource.plural,
        print(&table)
    ))
}

fn print(table: &Table) -> String {
    if table.rows.is_empty() {
        return "No resources found.\n".to_owned();
    }
    let shown: Vec<usize> = (0..table.column_definitions.len())
        .filter(|index| table.column_definitions[*index].priority == 0)
        .collect();
    let header = shown
        .iter()
        .map(|index| table.column_definitions[*index].name.to_uppercase())
        .collect();
    let rows = table.rows.iter().map(|row| {
        shown
            .iter()
            .map(|index| row.cells.get(*index).map(cell).unwrap_or_default())
            .collect()
    });
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let mut widths = vec![0; shown.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}   ");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// An absent value is an empty cell, as kubectl prints it.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, print};

    #[test]
    fn columns_are_aligned_and_wide_ones_left_out() {
        let table: Table = serde_json::from_value(serde_json::json!({
            "columnDefinitions": [{"name": "Name"}, {"name": "Message", "priority": 1}, {"name": "Ready"}],
            "rows": [{"cells": ["a-long-name", "x", 1]}, {"cells": ["b", "x", null]}],
        }))
        .expect("a table");
        assert_eq!(print(&table), "NAME          READY\na-long-name   1\nb\n");
    }
}
