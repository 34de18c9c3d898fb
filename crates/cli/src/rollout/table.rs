//! The rows of a rollout as a table.

use super::Row;
use crate::output::{
    style::Tone,
    table::{Cell, Table},
};

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
            (&*row.city.city).into(),
            row.counts.desired.to_string().into(),
            row.counts.updated.to_string().into(),
            row.counts.ready.to_string().into(),
            row.old().to_string().into(),
            Cell::toned(row.phase.word(), Tone::from(row.phase)),
            (&*row.detail).into(),
        ]);
    }
    table
}
