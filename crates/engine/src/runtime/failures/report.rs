//! Which failures the log reports, and how often: a key that is stuck, a plane that is down, and their ends.

use super::{Entry, LastFailure};
use crate::{clock::Now, error::Category};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

/// A key is stuck after this many attempts...
const ATTEMPTS: u32 = 5;
/// ...and this time.
const LASTING: Duration = Duration::from_secs(10);
/// A key that stays stuck is reported once in this time.
const AGAIN: Duration = Duration::from_hours(1);
/// A plane that stays down this long is reported.
const PLANE_DOWN: Duration = Duration::from_secs(30);
/// Maximum number of lines about stuck keys in [`SECOND`].
const LINES: usize = 10;
const SECOND: Duration = Duration::from_secs(1);
/// Stuck keys without a line of their own are summed up once in this time.
const SUMMED_EVERY: Duration = Duration::from_secs(10);

/// The last report of a failure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    at: Instant,
    category: Category,
    /// True if it had a line of its own, which another line ends.
    has_line: bool,
}

/// A failure that was reported has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Number of failures in the row.
    pub attempts: u32,
    /// Time since the first failure.
    pub lasted: Duration,
}

/// Limits the number of lines about stuck keys.
#[derive(Debug, Default)]
pub(super) struct Lines {
    recent: VecDeque<Instant>,
    summed: BTreeMap<(&'static str, Category), usize>,
    since: Option<Instant>,
}

impl Lines {
    /// True if there may be a line now.
    fn admit(&mut self, now: Now) -> bool {
        while self
            .recent
            .front()
            .is_some_and(|first| now.since(*first) >= SECOND)
        {
            self.recent.pop_front();
        }
        let admitted = self.recent.len() < LINES;
        if admitted {
            self.recent.push_back(now.instant);
        }
        admitted
    }

    /// The stuck keys without a line of their own, by kind of plane and category, if they are due.
    pub(super) fn sum(&mut self, now: Now) -> Option<String> {
        self.since.filter(|since| now.since(*since) >= SUMMED_EVERY)?;
        self.since = None;
        let summed = std::mem::take(&mut self.summed).into_iter();
        let parts =
            summed.map(|((plane, category), count)| format!("{plane} {}: {count}", category.as_str()));
        Some(parts.collect::<Vec<_>>().join(", "))
    }
}

impl Entry {
    /// The failure, if the log reports the key as stuck now.
    pub(super) fn stuck(&mut self, lines: &mut Lines, now: Now) -> Option<LastFailure> {
        let failure = &self.failure;
        let known = self
            .report
            .is_some_and(|report| report.category == failure.category && now.since(report.at) < AGAIN);
        if failure.attempts < ATTEMPTS || now.since(self.began) < LASTING || known {
            return None;
        }
        let has_line = lines.admit(now);
        self.report = Some(Report {
            at: now.instant,
            category: failure.category,
            has_line: has_line || self.report.is_some_and(|report| report.has_line),
        });
        if !has_line {
            let labels = (failure.plane.kind(), failure.category);
            *lines.summed.entry(labels).or_default() += 1;
            lines.since.get_or_insert(now.instant);
        }
        has_line.then(|| failure.clone())
    }

    /// The failure of a plane, if the log reports now that it is down.
    pub(super) fn down(&mut self, now: Now) -> Option<LastFailure> {
        if self.report.is_some() || now.since(self.began) < PLANE_DOWN {
            return None;
        }
        self.report = Some(Report {
            at: now.instant,
            category: self.failure.category,
            has_line: true,
        });
        Some(self.failure.clone())
    }

    /// The end of the failure, if the log has reported it.
    pub(super) fn settled(&self, now: Now) -> Option<Settled> {
        self.report.filter(|report| report.has_line)?;
        Some(Settled {
            attempts: self.failure.attempts,
            lasted: now.since(self.began),
        })
    }
}
