//! The rows of a rollout as a table, and as an object.

use super::Row;
use crate::output::table::{Cell, Table};
use serde_json::{Value, json};

/// The columns.
pub(crate) const ROWS: &[&str] = &[
    "PLACEMENT",
    "CITY",
    "DESIRED",
    "UPDATED",
    "READY",
    "OLD",
    "PHASE",
    "DETAIL",
];

/// The table.
pub(crate) fn table<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Table {
    let mut table = Table::new(ROWS);
    for row in rows {
        table.row(vec![
            (&*row.city.placement).into(),
            (&*row.city.shown).into(),
            row.counts.desired.to_string().into(),
            row.counts.updated.to_string().into(),
            row.counts.ready.to_string().into(),
            row.old().to_string().into(),
            Cell::toned(row.phase.word(), row.phase.tone()),
            (&*row.detail).into(),
        ]);
    }
    table
}

/// The rows as an object for programs.
pub(crate) fn object(name: &str, rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        let mut object = json!({"desired": row.counts.desired, "updated": row.counts.updated,
            "ready": row.counts.ready, "old": row.old(), "phase": row.phase.word(), "detail": row.detail});
        row.city.describe(&mut object);
        object
    });
    json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "RolloutStatus", "metadata": {"name": name},
        "rows": rows.collect::<Vec<_>>()})
}
