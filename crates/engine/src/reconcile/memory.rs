//! The in-memory state of keys.

use crate::{key::Key, random::HashMap, shrink::shrink_if_sparse};
use parking_lot::Mutex;

/// The in-memory state of a controller's keys. A key without an entry has the default state.
#[derive(Debug)]
pub struct Memories<M>(Mutex<HashMap<Key, M>>);

impl<M> Default for Memories<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M: Default + PartialEq> Memories<M> {
    /// Takes the state of a key, for its reconcile.
    pub fn take(&self, key: &Key) -> M {
        self.0.lock().remove(key).unwrap_or_default()
    }

    /// Stores the state of a key.
    pub fn put(&self, key: &Key, memory: M) {
        if memory != M::default() {
            self.0.lock().insert(key.clone(), memory);
        }
    }

    /// Drops the state of a key.
    pub fn forget(&self, key: &Key) {
        let mut memories = self.0.lock();
        memories.remove(key);
        shrink_if_sparse(&mut memories);
    }

    /// Keeps the states for which `keep` is true, and which are not the default one after it.
    pub fn retain(&self, mut keep: impl FnMut(&Key, &mut M) -> bool) {
        let mut memories = self.0.lock();
        memories.retain(|key, memory| keep(key, memory) && *memory != M::default());
        shrink_if_sparse(&mut memories);
    }

    /// Number of keys with a state.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// True if no key has a state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Plane};

    #[test]
    fn a_default_state_is_not_stored() {
        let memories = Memories::default();
        let key = |name| Key::new(Plane::Hub, Kind::new("copies", "x.y"), "ns", name);
        memories.put(&key("a"), 1);
        memories.put(&key("b"), 0);
        memories.put(&key("c"), 2);
        assert_eq!(memories.len(), 2);
        assert_eq!((memories.take(&key("a")), memories.take(&key("a"))), (1, 0));
        memories.retain(|_, memory| {
            *memory -= 2;
            true
        });
        assert!(memories.is_empty());
    }
}
