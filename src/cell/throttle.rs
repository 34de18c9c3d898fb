//! How often progress is told: what people wait for is written at once, steps on the way at intervals, so that what
//! passes quickly is one write.

use fedgate_engine::{key::Key, random::HashMap, shrink::shrink_if_sparse};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// When something was last told of a key.
#[derive(Debug, Default)]
pub struct Throttle(Mutex<HashMap<Key, Instant>>);

impl Throttle {
    /// How long to wait until this much time has passed since the last word; `None` if it has, or if there was none.
    pub fn left(&self, key: &Key, interval: Duration, now: Instant) -> Option<Duration> {
        let told = self.0.lock().get(key).copied()?;
        let left = interval.saturating_sub(now.saturating_duration_since(told));
        (!left.is_zero()).then_some(left)
    }

    /// The same, but a key that is new waits as if something had just been told of it.
    pub fn left_of_new(&self, key: &Key, interval: Duration, now: Instant) -> Option<Duration> {
        self.0.lock().entry(key.clone()).or_insert(now);
        self.left(key, interval, now)
    }

    /// Something was told.
    pub fn told(&self, key: &Key, now: Instant) {
        self.0.lock().insert(key.clone(), now);
    }

    /// The key is gone.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Forgets what was told longer ago; called every few seconds.
    pub fn prune(&self, interval: Duration, now: Instant) {
        let mut told = self.0.lock();
        told.retain(|_, at| now.saturating_duration_since(*at) < interval);
        shrink_if_sparse(&mut told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::index::tables::TableId;

    const INTERVAL: Duration = Duration::from_millis(500);

    #[test]
    fn the_first_word_is_said_at_once_and_the_next_at_its_time() {
        let (pace, key, now) = (
            Throttle::default(),
            TableId::Instances.key("ns", "a"),
            Instant::now(),
        );
        assert_eq!(pace.left(&key, INTERVAL, now), None);
        pace.told(&key, now);
        let later = now + Duration::from_millis(200);
        assert_eq!(pace.left(&key, INTERVAL, later), Some(Duration::from_millis(300)));
        assert_eq!(pace.left(&key, INTERVAL, now + INTERVAL), None);
        pace.forget(&key);
        assert_eq!(pace.left(&key, INTERVAL, later), None);
    }

    #[test]
    fn what_is_new_waits_once() {
        let (pace, key, now) = (
            Throttle::default(),
            TableId::Instances.key("ns", "a"),
            Instant::now(),
        );
        assert_eq!(pace.left_of_new(&key, INTERVAL, now), Some(INTERVAL));
        assert_eq!(pace.left_of_new(&key, INTERVAL, now + INTERVAL), None);
        pace.prune(INTERVAL, now + INTERVAL);
        assert!(pace.0.lock().is_empty());
    }
}
