//! Requeue delay of a key after a conflict: the watch delivers the winning version soon, unless the watch is late.

use fedgate_engine::{backoff::Backoff, key::Key, random::HashMap, shrink::shrink_if_sparse};
use parking_lot::Mutex;
use std::time::Duration;

/// Delays after consecutive conflicts of a key.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(5));

/// Number of consecutive conflicts of each key whose last reconcile ended in a conflict.
#[derive(Debug, Default)]
pub(super) struct ConflictBackoff(Mutex<HashMap<Key, u32>>);

impl ConflictBackoff {
    /// Records a reconcile that ended in a conflict; returns the delay until the retry.
    pub(super) fn another(&self, key: &Key) -> Duration {
        let mut conflicts = self.0.lock();
        let count = conflicts.entry(key.clone()).or_default();
        let pause = BACKOFF.delay(*count, ());
        *count = count.saturating_add(1);
        pause
    }

    /// Resets a key whose reconcile ended without a conflict.
    pub(super) fn over(&self, key: &Key) {
        let mut conflicts = self.0.lock();
        if conflicts.remove(key).is_some() {
            shrink_if_sparse(&mut conflicts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::index::tables::TableId;

    #[test]
    fn pauses_double_for_a_key_until_a_turn_ends_otherwise() {
        let conflicts = ConflictBackoff::default();
        let (one, other) = (
            TableId::Instances.key("ns-1", "a"),
            TableId::Instances.key("ns-1", "b"),
        );
        let pauses = || (0..10).map(|_| conflicts.another(&one).as_millis());
        let expected = [20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000];
        assert!(pauses().eq(expected));
        assert_eq!(conflicts.another(&other), BACKOFF.first);
        conflicts.over(&one);
        assert!(pauses().eq(expected));
        conflicts.over(&one);
        conflicts.over(&other);
        assert!(conflicts.0.lock().is_empty(), "nothing is kept");
    }
}
