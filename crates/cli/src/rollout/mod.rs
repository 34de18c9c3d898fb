//! The state of a rollout, one row for each placement and city (contract: cli.md §4).

mod locations;
mod progress;
mod report;
mod row;
mod wait;

pub(crate) use locations::{Cities, Locations};
pub(crate) use progress::BLOCKED_AFTER;
pub(crate) use row::{Phase, Row, carries_spec, counted_phase, rows, workload_refusal};
pub(crate) use wait::{Target, changed_meanwhile, wait};

use crate::{
    error::{Error, Kind},
    output::table::{Cell, Table},
    time::prose,
    view::{Instances, Joined},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

/// The rows as they are now, without a wait: its condition tells since when a row is refused.
pub(crate) fn once(joined: &Joined, instances: &Instances, now: Timestamp) -> Vec<Row> {
    let mut rows = rows(joined, instances);
    for row in &mut rows {
        if row.blocked_in(now).is_some_and(|left| left.is_zero()) {
            row.block();
        }
    }
    rows
}

impl Row {
    /// The time until this row is blocked if nothing in it changes; `None` if it is not refused.
    pub(crate) fn blocked_in(&self, now: Timestamp) -> Option<SignedDuration> {
        self.refusal.as_ref()?;
        let refused = self
            .since
            .map_or(SignedDuration::MAX, |since| now.duration_since(since));
        let after = SignedDuration::try_from(BLOCKED_AFTER).unwrap_or_default();
        Some(after.saturating_sub(refused).max(SignedDuration::ZERO))
    }
}

/// `Rolling out workload "web"  rev #3 -> #4`, as far as the revisions are known.
pub(crate) fn header(name: &str, from: Option<u64>, to: Option<u64>) -> String {
    let numbers = match (from, to) {
        (Some(from), Some(to)) => format!("  rev #{from} -> #{to}"),
        (None, Some(to)) => format!("  rev #{to}"),
        (_, None) => String::new(),
    };
    format!("Rolling out workload {name:?}{numbers}")
}

/// The error about a rollout that is not finished, with the time that was waited. It names the rows.
pub(crate) fn unfinished(name: &str, rows: &[Row], kind: Kind, after: Option<Duration>) -> Error {
    let left: Vec<&Row> = rows.iter().filter(|row| row.phase != Phase::Done).collect();
    if let [row] = left[..]
        && row.is_unserved
    {
        let next = format!("kubectl compute trace {name} --city {}", row.city.shown);
        return Error::new(kind, &row.detail).next(next);
    }
    let texts: Vec<String> = left
        .iter()
        .map(|row| match row.phase {
            phase @ (Phase::Blocked | Phase::Paused) => {
                format!("{} {}: {}", row.city, phase.as_str(), row.detail)
            }
            phase => format!("{} {}", row.city, phase.as_str()),
        })
        .collect();
    let after = after.map(|after| format!(" after {}", prose(after)));
    let what = format!(
        "rollout not finished{}: {}",
        after.unwrap_or_default(),
        texts.join(", ")
    );
    Error::new(kind, what).next(format!("kubectl compute trace {name}"))
}

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
            row.counts.old().to_string().into(),
            Cell::toned(row.phase.as_str(), row.phase.tone()),
            (&*row.detail).into(),
        ]);
    }
    table
}

/// The rows as an object for programs.
pub(crate) fn object(name: &str, rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        let mut object = json!({"desired": row.counts.desired, "updated": row.counts.updated,
            "ready": row.counts.ready, "old": row.counts.old(), "phase": row.phase.as_str(), "detail": row.detail});
        row.city.describe(&mut object);
        object
    });
    json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "RolloutStatus", "metadata": {"name": name},
        "rows": rows.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests;
