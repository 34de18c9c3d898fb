//! How long a key rests after a conflict: the version that won is known soon, unless a watch is late.

use fedgate_engine::{key::Key, random::HashMap, shrink::shrink_if_sparse};
use parking_lot::Mutex;
use std::time::Duration;

/// First pause; it doubles with each conflict that follows.
const FIRST: Duration = Duration::from_millis(20);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(5);

/// How many turns in a row ended in a conflict, of the keys whose last one did.
#[derive(Debug, Default)]
pub(super) struct ConflictBackoff(Mutex<HashMap<Key, u32>>);

impl ConflictBackoff {
    /// A turn ended in a conflict; when to try again.
    pub(super) fn another(&self, key: &Key) -> Duration {
        let mut conflicts = self.0.lock();
        let count = conflicts.entry(key.clone()).or_default();
        let pause = FIRST.saturating_mul(1 << (*count).min(16)).min(LONGEST);
        *count = count.saturating_add(1);
        pause
    }

    /// A turn ended otherwise.
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
        assert_eq!(conflicts.another(&other), FIRST);
        conflicts.over(&one);
        assert!(pauses().eq(expected));
        conflicts.over(&one);
        conflicts.over(&other);
        assert!(conflicts.0.lock().is_empty(), "nothing is kept");
    }
}
