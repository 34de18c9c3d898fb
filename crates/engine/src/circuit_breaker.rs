//! What failed several times in a row is asked for by one request in a while, which asks for all that wait for it.

use crate::random::HashMap;
use parking_lot::Mutex;
use std::{hash::Hash, time::Duration};
use tokio::time::Instant;

/// So many failures in a row hold back what comes next.
pub const FAILURES: u32 = 3;
/// One request in this time goes through while the others are held back.
pub const PROBE_EVERY: Duration = Duration::from_secs(5);

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

/// See the module; `K` is what requests have in common that fail together.
#[derive(Debug)]
pub struct CircuitBreaker<K>(Mutex<HashMap<K, Failing>>);

impl<K> Default for CircuitBreaker<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> CircuitBreaker<K> {
    /// Whether nothing has failed lately: the usual case, in which no key need be made.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Lets a request through, or says how long to wait.
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

    /// Whether requests are held back.
    pub fn is_held(&self, key: &K) -> bool {
        self.0.lock().get(key).is_some_and(Failing::is_held)
    }

    /// A request has failed; whether the next are held back because of it.
    pub fn failure(&self, key: &K) -> bool {
        let next = Instant::now() + PROBE_EVERY;
        let mut all = self.0.lock();
        let failing = all.entry(key.clone()).or_insert(Failing { in_a_row: 0, next });
        failing.in_a_row += 1;
        failing.next = next;
        failing.in_a_row == FAILURES
    }

    /// A request has been answered; whether others were held back.
    pub fn success(&self, key: &K) -> bool {
        self.0.lock().remove(key).is_some_and(|failing| failing.is_held())
    }

    /// All that is held back.
    pub fn open_keys(&self) -> Vec<K> {
        let all = self.0.lock();
        let held = all.iter().filter(|(_, failing)| failing.is_held());
        held.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets what is not wanted any more; a request that ends late may come after.
    pub fn retain(&self, wanted: impl Fn(&K) -> bool) {
        self.0.lock().retain(|key, _| wanted(key));
    }

    /// How much is looked after.
    #[cfg(any(test, feature = "testing"))]
    pub fn kept(&self) -> usize {
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
        assert_eq!(probes.kept(), 1);
    }
}
