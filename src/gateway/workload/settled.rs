//! Workloads whose API does not keep what is written as it is, so that it is not written for ever. Values only.

use crate::engine::chance::HashMap;
use crate::engine::{diff::Digest, key::Key};
use parking_lot::Mutex;

/// Of each such Workload: what was asked for, and what was found when it had been done.
#[derive(Debug, Default)]
pub(super) struct Settled(Mutex<HashMap<Key, (Digest, Digest)>>);

impl Settled {
    /// Whether to ask for this, `asked` being what this turn asked for last and what was there then, `found` what is there
    /// now. It is settled once asking has changed nothing: what differs after the first time may be another's edit.
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

    /// Forgets all but these.
    pub(super) fn retain(&self, wanted: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| wanted(key));
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.0.lock().len()
    }

    /// All is as it should be, or gone.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::key::{Kind, Plane};

    #[test]
    fn what_was_done_and_is_not_so_is_asked_again_only_when_something_has_changed() {
        let settled = Settled::default();
        let key = Key::new(Plane::Hub, Kind::new("workloads", "x.y"), "ns", "a");
        let [wanted, other, before, after] = [1, 2, 3, 4].map(|n: u8| Digest::of_hash(&n));
        assert!(settled.goes_on(&key, None, wanted, before));
        assert!(
            settled.goes_on(&key, Some((wanted, before)), wanted, after),
            "another may have edited it meanwhile"
        );
        assert!(
            !settled.goes_on(&key, Some((wanted, after)), wanted, after),
            "asking changes nothing"
        );
        assert!(!settled.goes_on(&key, None, wanted, after), "in later turns too");
        assert!(
            settled.goes_on(&key, None, wanted, before),
            "something else is there"
        );
        assert!(
            settled.goes_on(&key, None, other, after),
            "something else is wanted"
        );
        settled.forget(&key);
        assert!(settled.goes_on(&key, None, wanted, after));
    }
}
