//! Token buckets that limit how often one object is written: a few writes in a row go at once, a lasting stream of
//! changes costs one write per interval.

use crate::{key::Key, random::HashMap, shrink::shrink_if_sparse};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Delay before a rejected object is retried, unless it changes first.
pub const RETRY_AFTER: Duration = Duration::from_mins(5);

/// Size of a bucket, and how fast it fills again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time in which a token is added.
    pub interval: Duration,
    /// The tokens of a full bucket, at least 1.
    pub burst: u32,
}

impl Rate {
    /// A burst of 4, and one more write per `interval`.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, burst: 4 }
    }

    /// One write per `interval`.
    pub const fn single(interval: Duration) -> Self {
        Self { interval, burst: 1 }
    }
}

/// Which tokens a write may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// Progress: the last token of a bucket of more than one is kept for a transition.
    Progress,
    /// A change of `Ready` or `Available`: every token, so that it never waits behind progress.
    Transition,
}

/// The tokens of one object, as the time at which its bucket is full again. The default is a full bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBucket(Option<Instant>);

impl TokenBucket {
    /// A bucket without a token.
    pub fn empty(rate: Rate, now: Instant) -> Self {
        Self(Some(now + rate.interval * rate.burst))
    }

    /// Time until a write may take a token; `None` if it may at once.
    pub fn wait(self, rate: Rate, kind: WriteKind, now: Instant) -> Option<Duration> {
        let reserved = u32::from(kind == WriteKind::Progress && rate.burst > 1);
        let missing = self.0?.saturating_duration_since(now);
        let wait = missing.saturating_sub(rate.interval * rate.burst.saturating_sub(1 + reserved));
        (!wait.is_zero()).then_some(wait)
    }

    /// Takes a token.
    pub fn take(&mut self, rate: Rate, now: Instant) {
        let full = self.0.map_or(now, |full| full.max(now)) + rate.interval;
        // A write that did not ask leaves the bucket empty, never in debt.
        self.0 = Some(full.min(now + rate.interval * rate.burst));
    }

    /// Takes a token, the last one, too; false if there is none.
    pub fn try_take(&mut self, rate: Rate, now: Instant) -> bool {
        let has_one = self.wait(rate, WriteKind::Transition, now).is_none();
        if has_one {
            self.take(rate, now);
        }
        has_one
    }

    /// True if no token is missing: the bucket need not be kept.
    pub fn is_full(self, now: Instant) -> bool {
        self.0.is_none_or(|full| full <= now)
    }
}

/// The buckets of all keys of a controller.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<Key, TokenBucket>>);

impl Throttle {
    /// Time until the key may be written; `None` if it may be written at once.
    pub fn wait(&self, key: &Key, rate: Rate, kind: WriteKind, now: Instant) -> Option<Duration> {
        let bucket = self.0.lock().get(key).copied()?;
        bucket.wait(rate, kind, now)
    }

    /// As [`Throttle::wait`] for progress, but a key that has no bucket begins with an empty one: steps that pass
    /// quickly become one write.
    pub fn wait_from_empty(&self, key: &Key, rate: Rate, now: Instant) -> Option<Duration> {
        let mut buckets = self.0.lock();
        let bucket = buckets
            .entry(key.clone())
            .or_insert_with(|| TokenBucket::empty(rate, now));
        bucket.wait(rate, WriteKind::Progress, now)
    }

    /// The key was written.
    pub fn take(&self, key: &Key, rate: Rate, now: Instant) {
        self.0.lock().entry(key.clone()).or_default().take(rate, now);
    }

    /// Drops the bucket of a key that no longer exists.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Drops full buckets; call it every few seconds.
    pub fn prune(&self, now: Instant) {
        let mut buckets = self.0.lock();
        buckets.retain(|_, bucket| !bucket.is_full(now));
        shrink_if_sparse(&mut buckets);
    }

    /// Number of buckets that are kept.
    #[cfg(any(test, feature = "testing"))]
    pub fn entry_count(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Plane};

    const INTERVAL: Duration = Duration::from_millis(250);
    const RATE: Rate = Rate::new(INTERVAL);

    fn key() -> Key {
        Key {
            plane: Plane::Hub,
            kind: Kind::new("x.dev", "Thing"),
            namespace: "ns".into(),
            name: "a".into(),
        }
    }

    #[test]
    fn progress_takes_three_tokens_at_once_then_one_per_interval() {
        let (mut bucket, start) = (TokenBucket::default(), Instant::now());
        let mut sent = Vec::new();
        for millis in 0..2_000 {
            let now = start + Duration::from_millis(millis);
            if bucket.wait(RATE, WriteKind::Progress, now).is_none() {
                bucket.take(RATE, now);
                sent.push(millis);
            }
        }
        assert_eq!(sent, [0, 1, 2, 250, 500, 750, 1_000, 1_250, 1_500, 1_750]);
    }

    #[test]
    fn a_transition_waits_behind_transitions_and_not_behind_progress() {
        let (mut bucket, now) = (TokenBucket::default(), Instant::now());
        while bucket.wait(RATE, WriteKind::Progress, now).is_none() {
            bucket.take(RATE, now);
        }
        assert_eq!(bucket.wait(RATE, WriteKind::Progress, now), Some(INTERVAL));
        assert_eq!(bucket.wait(RATE, WriteKind::Transition, now), None);
        bucket.take(RATE, now);
        assert_eq!(bucket.wait(RATE, WriteKind::Transition, now), Some(INTERVAL));
        assert_eq!(bucket.wait(RATE, WriteKind::Progress, now), Some(INTERVAL * 2));
        assert!(bucket.is_full(now + INTERVAL * 4) && !bucket.is_full(now + INTERVAL * 3));
    }

    #[test]
    fn a_bucket_of_one_reserves_nothing() {
        let (mut bucket, now, rate) = (TokenBucket::default(), Instant::now(), Rate::single(INTERVAL));
        assert_eq!(bucket.wait(rate, WriteKind::Progress, now), None);
        bucket.take(rate, now);
        for kind in [WriteKind::Progress, WriteKind::Transition] {
            assert_eq!(bucket.wait(rate, kind, now), Some(INTERVAL));
            assert_eq!(bucket.wait(rate, kind, now + INTERVAL), None);
        }
    }

    #[test]
    fn a_new_key_may_begin_with_an_empty_bucket_and_full_ones_are_dropped() {
        let (throttle, now, rate) = (Throttle::default(), Instant::now(), Rate::single(INTERVAL));
        assert_eq!(throttle.wait(&key(), rate, WriteKind::Progress, now), None);
        assert_eq!(throttle.wait_from_empty(&key(), rate, now), Some(INTERVAL));
        assert_eq!(throttle.wait_from_empty(&key(), rate, now + INTERVAL), None);
        throttle.take(&key(), rate, now + INTERVAL);
        throttle.prune(now + INTERVAL);
        assert_eq!(throttle.entry_count(), 1);
        throttle.prune(now + INTERVAL * 2);
        assert_eq!(throttle.entry_count(), 0);
        throttle.take(&key(), rate, now);
        throttle.forget(&key());
        assert_eq!(throttle.entry_count(), 0);
    }
}
