//! Circuit breaker: after several failures in a row, one probe request at a time stands for all requests with the same
//! key.

use crate::random::HashMap;
use parking_lot::Mutex;
use std::{hash::Hash, time::Duration};
use tokio::time::Instant;

/// Consecutive failures that open the circuit.
pub const FAILURES: u32 = 3;
/// Interval of the probe requests while the circuit is open.
pub const PROBE_EVERY: Duration = Duration::from_secs(5);
/// Time without a probe after which an open circuit is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(300);

#[derive(Debug)]
struct Failing {
    in_a_row: u32,
    next: Instant,
}

impl Failing {
    fn is_held(&self) -> bool {
        self.in_a_row >= FAILURES
    }
}

/// Circuit breaker for requests that fail together; `K` is the key that they share.
#[derive(Debug)]
pub struct CircuitBreaker<K>(Mutex<HashMap<K, Failing>>);

impl<K> Default for CircuitBreaker<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> CircuitBreaker<K> {
    /// True if no request has failed recently: the usual case, in which callers need not build a key.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Admits a request, or returns the time to wait.
    pub fn admit(&self, key: &K) -> Result<(), Duration> {
        let mut all = self.0.lock();
        let Some(failing) = all.get_mut(key).filter(|failing| failing.is_held()) else {
            return Ok(());
        };
        let now = Instant::now();
        if failing.next > now {
            return Err(failing.next - now);
        }
        failing.next = now + PROBE_EVERY;
        Ok(())
    }

    /// True if the circuit is open: requests are rejected except for probes.
    pub fn is_held(&self, key: &K) -> bool {
        self.0.lock().get(key).is_some_and(Failing::is_held)
    }

    /// Records a failed request; true if this failure opens the circuit.
    pub fn failure(&self, key: &K) -> bool {
        let next = Instant::now() + PROBE_EVERY;
        let mut all = self.0.lock();
        let failing = all.entry(key.clone()).or_insert(Failing { in_a_row: 0, next });
        failing.in_a_row += 1;
        failing.next = next;
        failing.in_a_row == FAILURES
    }

    /// Records an answered request; true if this answer closes an open circuit.
    pub fn success(&self, key: &K) -> bool {
        self.0.lock().remove(key).is_some_and(|failing| failing.is_held())
    }

    /// The keys with an open circuit. A key for which no probe was sent for [`FORGET_AFTER`] is forgotten, because nothing
    /// needs it: a request that waits is repeated at shorter intervals.
    pub fn open_keys(&self) -> Vec<K> {
        let (mut all, now) = (self.0.lock(), Instant::now());
        all.retain(|_, failing| now.saturating_duration_since(failing.next) < FORGET_AFTER);
        let held = all.iter().filter(|(_, failing)| failing.is_held());
        held.map(|(key, _)| key.clone()).collect()
    }

    /// Drops the keys that are no longer wanted; a request that ends late may add its key again.
    pub fn retain(&self, wanted: impl Fn(&K) -> bool) {
        self.0.lock().retain(|key, _| wanted(key));
    }

    /// Number of keys with state.
    #[cfg(any(test, feature = "testing"))]
    pub fn entry_count(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_fails_in_a_row_is_held_back_but_for_a_probe_until_it_is_answered() {
        let probes = CircuitBreaker::default();
        for n in 1..=FAILURES {
            assert_eq!(probes.admit(&1), Ok(()));
            assert_eq!(probes.failure(&1), n == FAILURES, "it is said once");
        }
        assert_eq!((probes.admit(&1), probes.admit(&2)), (Err(PROBE_EVERY), Ok(())));
        assert_eq!((probes.open_keys(), probes.is_held(&2)), (vec![1], false));
        tokio::time::advance(PROBE_EVERY).await;
        assert_eq!(probes.admit(&1), Ok(()), "the probe");
        assert_eq!(probes.admit(&1), Err(PROBE_EVERY), "one at a time");
        assert!(!probes.failure(&1), "it was said");
        assert_eq!(probes.admit(&1), Err(PROBE_EVERY));
        assert!(probes.success(&1));
        assert!(!probes.success(&1));
        assert_eq!((probes.admit(&1), probes.is_empty()), (Ok(()), true));
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asks_for_is_forgotten_and_what_is_asked_for_stays() {
        let probes = CircuitBreaker::default();
        for key in [1, 1, 1, 2, 2, 2] {
            probes.failure(&key);
        }
        for _ in 0..=FORGET_AFTER.as_secs() / 20 {
            tokio::time::advance(Duration::from_secs(20)).await;
            assert_eq!(probes.admit(&2), Ok(()), "the probe of a request that waits");
        }
        assert_eq!(probes.open_keys(), [2]);
        assert_eq!((probes.admit(&1), probes.entry_count()), (Ok(()), 1));
    }

    #[test]
    fn failures_among_answers_hold_nothing_back() {
        let probes = CircuitBreaker::default();
        for _ in 0..10 * FAILURES {
            assert!(!probes.failure(&1));
            assert!(!probes.success(&1));
        }
        assert!(probes.open_keys().is_empty());
    }

    #[test]
    fn what_is_not_wanted_is_forgotten() {
        let probes = CircuitBreaker::default();
        for key in [1, 2] {
            probes.failure(&key);
        }
        probes.retain(|key| *key == 2);
        assert_eq!(probes.entry_count(), 1);
    }
}
