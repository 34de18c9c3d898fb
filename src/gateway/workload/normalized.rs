//! Workloads whose API server changes written values, so that they are not written forever. Values only.

use fedgate_engine::random::HashMap;
use fedgate_engine::{diff::Digest, key::Key};
use parking_lot::Mutex;

/// For each such Workload: the digest of the last writes, and the digest of the state after them.
#[derive(Debug, Default)]
pub(super) struct Normalized(Mutex<HashMap<Key, (Digest, Digest)>>);

impl Normalized {
    /// True if the plan is to be executed. `asked` is the plan and the state of this reconcile's last execution,
    /// `found` is the current state. The Workload is normalized once a write has changed nothing: a difference after the
    /// first write may be another client's edit.
    pub(super) fn goes_on(
        &self,
        key: &Key,
        asked: Option<(Digest, Digest)>,
        wanted: Digest,
        found: Digest,
    ) -> bool {
        let mut memory = self.0.lock();
        if memory.get(key) == Some(&(wanted, found)) {
            return false;
        }
        if asked == Some((wanted, found)) {
            memory.insert(key.clone(), (wanted, found));
            return false;
        }
        true
    }

    /// Forgets all other Workloads.
    pub(super) fn retain(&self, wanted: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| wanted(key));
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets a Workload without differences, or a deleted one.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedgate_engine::key::{Kind, Plane};

    #[test]
    fn what_was_done_and_is_not_so_is_asked_again_only_when_something_has_changed() {
        let normalized = Normalized::default();
        let key = Key::new(Plane::Hub, Kind::new("workloads", "x.y"), "ns", "a");
        let [wanted, other, before, after] = [1, 2, 3, 4].map(|n: u8| Digest::of_hash(&n));
        assert!(normalized.goes_on(&key, None, wanted, before));
        assert!(
            normalized.goes_on(&key, Some((wanted, before)), wanted, after),
            "another may have edited it meanwhile"
        );
        assert!(
            !normalized.goes_on(&key, Some((wanted, after)), wanted, after),
            "asking changes nothing"
        );
        assert!(
            !normalized.goes_on(&key, None, wanted, after),
            "in later turns too"
        );
        assert!(
            normalized.goes_on(&key, None, wanted, before),
            "something else is there"
        );
        assert!(
            normalized.goes_on(&key, None, other, after),
            "something else is wanted"
        );
        normalized.forget(&key);
        assert!(normalized.goes_on(&key, None, wanted, after));
    }
}
