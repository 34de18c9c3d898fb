//! The last failure of each key whose last reconcile failed, to diagnose stuck keys.

mod cause;
pub(super) mod log;
mod report;

pub use crate::error::Class;
pub use cause::Cause;
pub use report::Settled;

use super::queue::Backoffs;
use crate::{
    clock::Now,
    error::{Category, Failure},
    key::{Key, Plane},
    message::clean,
    metrics::{Family, Gauges},
    random::HashMap,
    shrink::shrink_if_sparse,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use report::{Lines, Report};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Name of the controller of failures that belong to no key.
const NO_CONTROLLER: &str = "none";

/// Limit of recorded failures. Beyond it the oldest stay: they show which keys are stuck, and newer failures add no
/// information.
const KEPT: usize = 10_000;
/// Limit of the memory of all recorded failures, in bytes.
const BYTES: usize = 8 * 1024 * 1024;
/// Memory of a recorded failure without its texts, in bytes: its slots in a table that may be less than half full, and
/// what an allocator adds to its three allocations.
const FIXED: usize = 3 * (size_of::<Key>() + size_of::<usize>()) + size_of::<Entry>() + 48;

/// The last failure of a key, and since when it has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    /// The controller that reconciles the key.
    pub controller: &'static str,
    /// The plane that the request was sent to; it may differ from the key's plane.
    pub plane: Plane,
    /// The verb of the request.
    pub verb: &'static str,
    /// `<kind> <namespace>/<name>`.
    pub object: Box<str>,
    /// The category of the failure.
    pub category: Category,
    /// How the key goes on.
    pub class: Class,
    /// The error message of the server or of the transport: without values of objects, control characters escaped, at
    /// most 512 characters.
    pub message: Box<str>,
    /// Time of the first failure in this row.
    pub since: Timestamp,
    /// Time of the last failure.
    pub last: Timestamp,
    /// Number of failures in a row.
    pub attempts: u32,
    /// Time of the next attempt, unless an event comes first; `None` if it waits for an event alone.
    pub next: Option<Timestamp>,
}

impl LastFailure {
    /// A failure that belongs to no key, and of which no attempt is counted.
    fn of(failure: &Failure, class: Class, now: Now) -> Self {
        Self {
            controller: NO_CONTROLLER,
            plane: failure.plane.clone(),
            verb: failure.verb,
            object: failure.object.as_str().into(),
            category: failure.category,
            class,
            message: clean(&failure.message),
            since: now.wall,
            last: now.wall,
            attempts: 0,
            next: None,
        }
    }
}

/// A failed reconcile.
#[derive(Debug, Clone)]
pub struct Attempt<'a> {
    /// The key.
    pub key: &'a Key,
    /// The controller that reconciles the key.
    pub controller: &'static str,
    /// The failure.
    pub failure: &'a Failure,
    /// The cause that holds back other keys too, if there is one.
    pub cause: Option<Cause>,
    /// Time until the next attempt; `None` if the key waits for an event.
    pub next: Option<Duration>,
}

impl Attempt<'_> {
    fn due(&self, now: Now) -> Option<Timestamp> {
        now.wall.checked_add(self.next?).ok()
    }
}

/// The recorded failures, by key.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Key, Box<Entry>>,
    bytes: usize,
    causes: BTreeMap<Arc<Cause>, Entry>,
    /// Number of failures that gave way to older ones.
    dropped: u64,
    lines: Lines,
}

/// A key that has failed for longer is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// The consequences of a recorded failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The cause that holds back the key, as one value for all keys behind it.
    pub cause: Option<Arc<Cause>>,
    /// The failure, if the log reports the key as stuck now.
    pub stuck: Option<LastFailure>,
}

/// A recorded failure.
#[derive(Debug)]
struct Entry {
    failure: LastFailure,
    began: Instant,
    /// True while a cause holds back the key: the failure of the cause stands for its own.
    blocked: bool,
    report: Option<Report>,
}

impl Failures {
    /// Records a failed reconcile. A missing Lease is no failure. A call that a cause holds back, or that meets it, is
    /// no failure of its own: it counts as the one failure of the cause.
    pub fn failed(&self, mut attempt: Attempt<'_>, now: Now) -> Recorded {
        let mut kept = self.0.lock();
        match (attempt.failure.category, attempt.cause.take()) {
            (Category::NotLeader, _) => kept.remove(attempt.key),
            (_, Some(cause)) => {
                return Recorded {
                    cause: Some(kept.blocked(cause, &attempt, now)),
                    stuck: None,
                };
            }
            // The cause has ended meanwhile.
            (Category::CircuitOpen, None) => {}
            _ => {
                return Recorded {
                    cause: None,
                    stuck: kept.record(&attempt, now),
                };
            }
        }
        Recorded::default()
    }

    /// Removes the record of a key whose reconcile succeeded; returns its end if the log has reported it as stuck.
    pub fn succeeded(&self, key: &Key, now: Now) -> Option<Settled> {
        let mut kept = self.0.lock();
        let settled = kept.entries.get(key).and_then(|entry| entry.settled(now));
        kept.remove(key);
        settled
    }

    /// The number of stuck keys that had no log line of their own, by kind of plane and category, once in 10 s.
    pub fn more_stuck(&self, now: Now) -> Option<String> {
        self.0.lock().lines.sum(now)
    }

    /// Wanted planes that are down for 30 s, each once.
    pub fn planes_down(&self, wanted: impl Fn(&Plane) -> bool, now: Now) -> Vec<(Arc<Cause>, LastFailure)> {
        let mut kept = self.0.lock();
        let planes = kept
            .causes
            .iter_mut()
            .filter(|(cause, _)| matches!(&***cause, Cause::Plane(plane) if wanted(plane)));
        planes
            .filter_map(|(cause, entry)| Some((cause.clone(), entry.down(now)?)))
            .collect()
    }

    /// Drops the failures of a plane that was removed; none of its keys is retried.
    pub fn forget(&self, plane: &Plane) {
        let mut kept = self.0.lock();
        kept.retain(|key| key.plane != *plane);
        kept.causes.retain(|cause, _| cause.plane() != plane);
    }

    /// Drops the failures of all reconciles, because this replica writes no more; those of planes stay.
    pub fn stand_by(&self) {
        let mut kept = self.0.lock();
        kept.retain(|_| false);
        kept.causes.retain(|cause, _| matches!(**cause, Cause::Plane(_)));
    }

    /// Drops the failures of causes that have ended; returns those that the log has reported.
    pub fn retain_causes(&self, lasts: impl Fn(&Cause) -> bool, now: Now) -> Vec<(Arc<Cause>, Settled)> {
        let mut settled = Vec::new();
        self.0.lock().causes.retain(|cause, entry| {
            let stays = lasts(cause);
            let end = entry.settled(now).filter(|_| !stays);
            settled.extend(end.map(|end| (cause.clone(), end)));
            stays
        });
        settled
    }

    /// The last failure of a key, if its last reconcile failed by itself.
    pub fn of(&self, key: &Key) -> Option<LastFailure> {
        let kept = self.0.lock();
        let entry = kept.entries.get(key).filter(|entry| !entry.blocked);
        entry.map(|entry| entry.failure.clone())
    }

    /// The failure of a cause that holds back calls.
    pub fn of_cause(&self, cause: &Cause) -> Option<LastFailure> {
        let kept = self.0.lock();
        kept.causes.get(cause).map(|entry| entry.failure.clone())
    }

    /// The causes that hold back calls, each with its failure.
    pub fn causes(&self) -> Vec<(Arc<Cause>, LastFailure)> {
        let kept = self.0.lock();
        let causes = kept.causes.iter();
        causes
            .map(|(cause, entry)| (cause.clone(), entry.failure.clone()))
            .collect()
    }

    /// The failing keys, each with its last failure; those that a cause holds back are missing.
    pub fn all(&self) -> Vec<(Key, LastFailure)> {
        let kept = self.0.lock();
        let own = kept.entries.iter().filter(|(_, entry)| !entry.blocked);
        own.map(|(key, entry)| (key.clone(), entry.failure.clone()))
            .collect()
    }

    /// Number of recorded failures, those of causes included.
    pub fn count(&self) -> usize {
        let kept = self.0.lock();
        kept.shown().count() + kept.causes.len()
    }

    /// The gauges of failures; `backoffs` are the keys that are retried.
    pub fn gauges(&self, backoffs: &Backoffs, now: Now) -> Gauges {
        let kept = self.0.lock();
        let mut gauges = Gauges::default();
        gauges.failures_dropped = kept.dropped;
        let count = kept.shown().count() + kept.causes.len();
        gauges.set(Family::Failures, &[], count);
        let is_old = |entry: &Entry| now.since(entry.began) > STUCK;
        for entry in kept.shown() {
            let failure = &entry.failure;
            let labels = [failure.controller, failure.category.as_str()];
            if matches!(failure.class, Class::Wait | Class::Quarantine) {
                gauges.add(Family::KeysInBackoff, &labels, 1_usize);
            }
            if failure.class == Class::Quarantine {
                continue;
            }
            gauges.raise(Family::OldestStuckKey, &[], now.since(entry.began));
            if is_old(entry) {
                gauges.add(Family::StuckKeys, &labels, 1_usize);
            }
        }
        for (cause, entry) in &kept.causes {
            if !matches!(**cause, Cause::Suspended(_)) {
                gauges.raise(Family::OldestStuckKey, &[], now.since(entry.began));
            }
        }
        for (mark, count) in &backoffs.0 {
            let labels = [mark.controller, mark.category.as_str()];
            gauges.add(Family::KeysInBackoff, &labels, *count);
            let cause = mark.cause.as_ref().and_then(|cause| kept.causes.get(cause));
            if cause.is_some_and(is_old) {
                gauges.add(Family::StuckKeys, &labels, *count);
            }
        }
        gauges
    }

    /// Number of failing keys, by kind of the called plane and by category.
    pub fn counts(&self) -> BTreeMap<(&'static str, Category), usize> {
        let mut counts = BTreeMap::new();
        for entry in self.0.lock().shown() {
            let failure = &entry.failure;
            *counts
                .entry((failure.plane.kind(), failure.category))
                .or_default() += 1;
        }
        counts
    }

    /// Number of failures that gave way to older ones.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// The counts as JSON, for `/debug/planes`; `behind` is the number of keys that each cause holds back.
    pub fn describe(&self, behind: &BTreeMap<Arc<Cause>, usize>) -> serde_json::Value {
        let counts = self.counts().into_iter().map(|((plane, category), count)| {
            serde_json::json!({"plane": plane, "category": category.as_str(), "count": count})
        });
        let causes = self.causes();
        let causes = causes.into_iter().map(|(cause, failure)| {
            serde_json::json!({
                "plane": cause.plane().to_string(), "category": failure.category.as_str(),
                "class": failure.class.as_str(), "since": failure.since.to_string(), "message": failure.message,
                "keys": behind.get(&cause).copied().unwrap_or_default(),
            })
        });
        serde_json::json!({
            "counts": counts.collect::<Vec<_>>(), "causes": causes.collect::<Vec<_>>(), "dropped": self.dropped(),
        })
    }

    /// Memory of all recorded failures, in bytes.
    #[cfg(any(test, feature = "testing"))]
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }
}

impl Entry {
    fn new(failure: LastFailure, now: Now) -> Self {
        Self {
            failure,
            began: now.instant,
            blocked: false,
            report: None,
        }
    }

    fn bytes(&self) -> usize {
        FIXED + self.failure.object.len() + self.failure.message.len()
    }
}

impl Kept {
    fn shown(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .values()
            .map(|entry| &**entry)
            .filter(|entry| !entry.blocked)
    }

    /// Records a failure; returns it if the log reports the key as stuck now.
    fn record(&mut self, attempt: &Attempt<'_>, now: Now) -> Option<LastFailure> {
        let Attempt { key, failure, .. } = attempt;
        let mut entry = Box::new(Entry::new(
            LastFailure::of(failure, failure.category.class(), now),
            now,
        ));
        entry.failure.controller = attempt.controller;
        entry.failure.attempts = 1;
        entry.failure.next = attempt.due(now);
        if let Some(known) = self.entries.get(*key) {
            (entry.began, entry.report) = (known.began, known.report);
            entry.failure.since = known.failure.since;
            entry.failure.attempts = known.failure.attempts.saturating_add(1);
        }
        let stuck = entry.stuck(&mut self.lines, now);
        self.bytes += entry.bytes();
        if let Some(old) = self.entries.insert((*key).clone(), entry) {
            self.bytes -= old.bytes();
        }
        while self.entries.len() > KEPT || self.bytes > BYTES {
            self.give_way(key);
        }
        stuck
    }

    /// Drops the youngest failure of class retry, and counts it; `newest` if there is none.
    fn give_way(&mut self, newest: &Key) {
        let is_retry = |entry: &Entry| entry.failure.class == Class::Retry;
        // A key that fails for the first time is the youngest; the others are looked at only if it may not give way.
        let is_youngest = |entry: &Entry| is_retry(entry) && entry.failure.attempts == 1;
        let youngest = if self.entries.get(newest).is_some_and(|entry| is_youngest(entry)) {
            newest.clone()
        } else {
            let retried = self.entries.iter().filter(|(_, entry)| is_retry(entry));
            let youngest = retried.max_by_key(|(key, entry)| (entry.began, *key));
            youngest.map_or(newest, |(key, _)| key).clone()
        };
        self.dropped += 1;
        self.remove(&youngest);
    }

    fn remove(&mut self, key: &Key) {
        if self.entries.is_empty() {
            return;
        }
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes();
            shrink_if_sparse(&mut self.entries);
        }
    }

    fn retain(&mut self, wanted: impl Fn(&Key) -> bool) {
        let bytes = &mut self.bytes;
        self.entries.retain(|key, entry| {
            let stays = wanted(key);
            *bytes -= if stays { 0 } else { entry.bytes() };
            stays
        });
        shrink_if_sparse(&mut self.entries);
    }
}

#[cfg(test)]
mod tests;
