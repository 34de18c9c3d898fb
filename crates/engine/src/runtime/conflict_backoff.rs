//! Requeue delay of a key after a conflict: the watch delivers the winning version soon, unless the watch is late.

use crate::{backoff::Backoff, key::Key, random::HashMap, shrink::shrink_if_sparse};
use parking_lot::Mutex;
use std::time::Duration;

/// Delays after the first conflict and after many.
pub(super) const CONFLICT_BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(5));

/// Number of consecutive conflicts of each key whose last reconcile ended in a conflict.
#[derive(Debug, Default)]
pub(super) struct ConflictBackoff(Mutex<HashMap<Key, u32>>);

impl ConflictBackoff {
    /// Records a reconcile that ended in a conflict; returns the delay until the retry.
    pub(super) fn record(&self, key: &Key, backoff: Backoff) -> Duration {
        let mut conflicts = self.0.lock();
        let count = conflicts.entry(key.clone()).or_default();
        let delay = backoff.delay(*count, ());
        *count = count.saturating_add(1);
        delay
    }

    /// Resets a key whose reconcile ended without a conflict.
    pub(super) fn reset(&self, key: &Key) {
        let mut conflicts = self.0.lock();
        if conflicts.remove(key).is_some() {
            shrink_if_sparse(&mut conflicts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Plane};

    #[test]
    fn delays_double_for_a_key_until_a_reconcile_ends_otherwise() {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(5));
        let conflicts = ConflictBackoff::default();
        let key = |name: &str| Key::new(Plane::Cell, Kind::new("example.com", "Box"), "ns-1", name);
        let (one, other) = (key("a"), key("b"));
        let delays = || (0..10).map(|_| conflicts.record(&one, backoff).as_millis());
        let expected = [20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000];
        assert!(delays().eq(expected));
        assert_eq!(conflicts.record(&other, backoff), backoff.first);
        conflicts.reset(&one);
        assert!(delays().eq(expected));
        conflicts.reset(&one);
        conflicts.reset(&other);
        assert!(conflicts.0.lock().is_empty(), "nothing is kept");
    }
}
