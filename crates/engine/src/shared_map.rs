//! Values that all users of a key share, for as long as there is one.

use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// The values by key; a value is dropped with its last user.
#[derive(Debug)]
pub(crate) struct SharedMap<K, V>(Mutex<BTreeMap<K, Weak<V>>>);

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> SharedMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of a key, if somebody uses it.
    pub(crate) fn known(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().get(key)?.upgrade()
    }

    /// The value of a key, made if nobody uses it.
    pub(crate) fn get(&self, key: K, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let mut values = self.0.lock();
        if let Some(known) = values.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let new = make();
        values.insert(key, Arc::downgrade(&new));
        new
    }
}
