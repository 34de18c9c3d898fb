//! The course of a rollout in time: which rows have changed, which are blocked, and when it ends.

use super::{Phase, Row};
use crate::view::City;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Time without a change after which a refused row is blocked.
pub(crate) const BLOCKED_AFTER: Duration = Duration::from_secs(30);

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All rows are done.
    Complete,
    /// Every unfinished row has been blocked for the time of `--stall-timeout`.
    Stalled,
}

/// A rollout as it was last seen.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Zero for never.
    stall_timeout: Duration,
    rows: Vec<Row>,
    /// Since when each row is as it is, and whether it was told that it is blocked.
    since: BTreeMap<City, (Instant, bool)>,
}

impl Progress {
    /// A rollout that was not seen yet.
    pub(crate) fn new(stall_timeout: Duration) -> Self {
        Self {
            stall_timeout,
            rows: Vec::new(),
            since: BTreeMap::new(),
        }
    }

    /// The rows, each blocked if nothing in it has changed for a while.
    pub(crate) fn rows(&self, now: Instant) -> impl Iterator<Item = Row> {
        self.rows.iter().map(move |row| {
            let mut row = row.clone();
            if let Some(refusal) = self.blocked(&row, now) {
                row.detail = match &row.instance {
                    Some(instance) => format!("{refusal}; {instance}"),
                    None => refusal.to_owned(),
                };
                row.phase = Phase::Blocked;
            }
            row
        })
    }

    /// Takes over what is seen now; returns the rows that have changed or are blocked since the last time.
    pub(crate) fn observe(&mut self, rows: Vec<Row>, now: Instant) -> Vec<Row> {
        let mut changed = Vec::new();
        for row in &rows {
            let before = self.rows.iter().find(|before| before.city == row.city);
            if !before.is_some_and(|before| row.is_as(before)) {
                self.since.insert(row.city.clone(), (now, false));
                changed.push(row.clone());
            }
        }
        self.rows = rows;
        self.since
            .retain(|city, _| self.rows.iter().any(|row| row.city == *city));
        changed.extend(self.again(now));
        changed
    }

    /// The rows that are blocked since the last time, although nothing was seen.
    pub(crate) fn again(&mut self, now: Instant) -> Vec<Row> {
        let mut blocked: Vec<Row> = self.rows(now).filter(|row| row.phase == Phase::Blocked).collect();
        blocked.retain(|row| {
            let told = self.since.get_mut(&row.city).map(|(_, told)| told);
            told.is_some_and(|told| !std::mem::replace(told, true))
        });
        blocked
    }

    /// The end, if it has come.
    pub(crate) fn end(&self, now: Instant) -> Option<End> {
        if self.rows.is_empty() {
            return None;
        }
        let mut unfinished = self.rows.iter().filter(|row| row.phase != Phase::Done).peekable();
        if unfinished.peek().is_none() {
            return Some(End::Complete);
        }
        if self.stall_timeout.is_zero() {
            return None;
        }
        let stalled = unfinished
            .all(|row| row.refusal.is_some() && self.age(row, now) >= BLOCKED_AFTER + self.stall_timeout);
        stalled.then_some(End::Stalled)
    }

    /// Time until a row is blocked or the rollout has stalled, if nothing changes.
    pub(crate) fn next(&self, now: Instant) -> Option<Duration> {
        let refused = self.rows.iter().filter(|row| row.refusal.is_some());
        let times = refused.flat_map(|row| {
            let age = self.age(row, now);
            [BLOCKED_AFTER, BLOCKED_AFTER + self.stall_timeout].map(|at| at.checked_sub(age))
        });
        times.flatten().filter(|time| !time.is_zero()).min()
    }

    fn blocked<'a>(&self, row: &'a Row, now: Instant) -> Option<&'a str> {
        let refusal = row.refusal.as_deref()?;
        (self.age(row, now) >= BLOCKED_AFTER).then_some(refusal)
    }

    fn age(&self, row: &Row, now: Instant) -> Duration {
        let since = self.since.get(&row.city);
        since.map_or(Duration::ZERO, |(since, _)| now.duration_since(*since))
    }
}
