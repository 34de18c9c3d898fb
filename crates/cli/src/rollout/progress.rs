//! The course of a rollout in time: which rows have changed, which are blocked, and when it ends.

use super::{Phase, Row};
use crate::view::City;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Time without a change after which a refused row is blocked. During a wait `--stall-timeout` applies instead, if it is shorter
/// and not zero.
pub(crate) const BLOCKED_AFTER: Duration = Duration::from_secs(30);

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All rows are done.
    Complete,
    /// Every unfinished row has been blocked for the time of `--stall-timeout`.
    Stalled,
    /// Every unfinished row is paused.
    Paused,
}

/// A rollout as it was last observed. Its times are those of a clock that stands still while nothing can be observed.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Zero for never.
    stall_timeout: Duration,
    /// `None` before the first observation; a Workload may have no rows at all.
    rows: Option<Vec<Aging>>,
}

/// A row with its age.
#[derive(Debug, Clone)]
struct Aging {
    row: Row,
    /// Since when it is as it is.
    since: Instant,
    /// True once it was reported as blocked.
    reported: bool,
}

impl Progress {
    /// A rollout that was not observed yet.
    pub(crate) fn new(stall_timeout: Duration) -> Self {
        Self {
            stall_timeout,
            rows: None,
        }
    }

    /// The rows, each blocked if nothing in it has changed for a while.
    pub(crate) fn rows(&self, now: Instant) -> Vec<Row> {
        let after = self.blocked_after();
        self.known().iter().map(|aging| aging.at(now, after)).collect()
    }

    /// Takes over what is observed now; returns the rows that have changed or are blocked since the last time.
    pub(crate) fn observe(&mut self, rows: Vec<Row>, now: Instant) -> Vec<Row> {
        let before = self.rows.take().into_iter().flatten();
        let mut before: BTreeMap<City, Aging> = before.map(|aging| (aging.row.city.clone(), aging)).collect();
        let mut changed = Vec::new();
        let rows = rows.into_iter().map(|row| {
            if let Some(kept) = before.remove(&row.city).filter(|kept| row.is_as(&kept.row)) {
                return Aging { row, ..kept };
            }
            changed.push(row.clone());
            Aging {
                row,
                since: now,
                reported: false,
            }
        });
        self.rows = Some(rows.collect());
        changed.extend(self.again(now));
        changed
    }

    /// The rows that are blocked since the last time, although nothing was observed.
    pub(crate) fn again(&mut self, now: Instant) -> Vec<Row> {
        let after = self.blocked_after();
        let rows = self.rows.iter_mut().flatten();
        let blocked = rows.filter(|aging| !aging.reported && aging.is_blocked(now, after));
        blocked
            .map(|aging| {
                aging.reported = true;
                aging.at(now, after)
            })
            .collect()
    }

    /// The end, if it has come.
    pub(crate) fn end(&self, now: Instant) -> Option<End> {
        let rows = self.rows.as_ref()?;
        let mut unfinished = rows
            .iter()
            .filter(|aging| aging.row.phase != Phase::Done)
            .peekable();
        if unfinished.peek().is_none() {
            return Some(End::Complete);
        }
        if unfinished.clone().all(|aging| aging.row.phase == Phase::Paused) {
            return Some(End::Paused);
        }
        let limit = self.stall_limit()?;
        let stalled = unfinished.all(|aging| aging.row.refusal.is_some() && aging.age(now) >= limit);
        stalled.then_some(End::Stalled)
    }

    /// Time until a row is blocked or the rollout has stalled, if nothing changes.
    pub(crate) fn next(&self, now: Instant) -> Option<Duration> {
        let limits = [Some(self.blocked_after()), self.stall_limit()];
        let refused = self.known().iter().filter(|aging| aging.row.refusal.is_some());
        let times = refused.flat_map(|aging| {
            let age = aging.age(now);
            let limits = limits.into_iter().flatten();
            limits.filter_map(move |limit| limit.checked_sub(age))
        });
        times.filter(|time| !time.is_zero()).min()
    }

    fn known(&self) -> &[Aging] {
        self.rows.as_deref().unwrap_or_default()
    }

    /// The age at which a refused row is blocked.
    fn blocked_after(&self) -> Duration {
        if self.stall_timeout.is_zero() {
            BLOCKED_AFTER
        } else {
            BLOCKED_AFTER.min(self.stall_timeout)
        }
    }

    /// The age at which a refused row ends the wait; `None` for never.
    fn stall_limit(&self) -> Option<Duration> {
        (!self.stall_timeout.is_zero()).then(|| self.blocked_after().saturating_add(self.stall_timeout))
    }
}

impl Aging {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    fn is_blocked(&self, now: Instant, after: Duration) -> bool {
        self.row.refusal.is_some() && self.age(now) >= after
    }

    /// The row as it is shown at this time, blocked from this age.
    fn at(&self, now: Instant, after: Duration) -> Row {
        let mut row = self.row.clone();
        if self.is_blocked(now, after) {
            row.block();
        }
        row
    }
}
