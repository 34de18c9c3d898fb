//! Numbers of rows by a key that each yields.

use std::collections::{BTreeMap, BTreeSet};

/// Counts the rows that yield each key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefCounts<K>(pub(super) BTreeMap<K, usize>);

impl<K> Default for RefCounts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> RefCounts<K> {
    pub(super) fn set(&self) -> BTreeSet<K> {
        self.0.keys().cloned().collect()
    }

    /// Counts a row that yields the key.
    pub fn add(&mut self, key: K) {
        *self.0.entry(key).or_default() += 1;
    }

    /// Counts a row that yields the key, or one less.
    pub fn count(&mut self, key: K, is_there: bool) {
        if is_there {
            self.add(key);
        } else {
            self.take(&key);
        }
    }

    /// Counts one row less that yields the key.
    pub fn take(&mut self, key: &K) {
        if let Some(count) = self.0.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key, if there is exactly one.
    pub(super) fn only(&self) -> Option<&K> {
        let mut keys = self.0.keys();
        keys.next().filter(|_| keys.next().is_none())
    }

    /// True if at least one row yields the key.
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Keys with the number of the rows that yield them.
    pub fn counts(&self) -> impl Iterator<Item = (&K, usize)> {
        self.0.iter().map(|(key, count)| (key, *count))
    }

    /// Keys that at least one row yields.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}
