//! Interns values that many objects repeat, so that each is stored once.

use crate::random::HashSet;
use std::{borrow::Borrow, hash::Hash, sync::Arc};

/// Number of new values after which the interner drops the unused ones.
const SPARE: usize = 1_024;

/// Stores each value once. A value is dropped after its last user, so that no client can fill the memory with made-up
/// values.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    values: HashSet<Arc<T>>,
    look_at: usize,
}

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Self {
            values: HashSet::default(),
            look_at: SPARE,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The interned form of a borrowed value.
    pub fn intern<'a, Q>(&mut self, value: &'a Q) -> Arc<T>
    where
        Arc<T>: Borrow<Q> + From<&'a Q>,
        Q: ?Sized + Eq + Hash,
    {
        if let Some(known) = self.values.get(value) {
            return known.clone();
        }
        self.keep(value.into())
    }

    /// The interned form of an owned value.
    pub fn intern_value(&mut self, value: T) -> Arc<T>
    where
        T: Sized,
    {
        match self.values.get(&value) {
            Some(known) => known.clone(),
            None => self.keep(Arc::new(value)),
        }
    }

    fn keep(&mut self, new: Arc<T>) -> Arc<T> {
        if self.values.len() >= self.look_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.look_at = self.values.len() + SPARE.max(self.values.len() / 4);
        }
        self.values.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_what_nobody_uses_goes() {
        let mut pool: Interner<str> = Interner::default();
        let first = pool.intern("a");
        assert!(Arc::ptr_eq(&first, &pool.intern("a")));
        for n in 0..10 * SPARE {
            pool.intern(n.to_string().as_str());
        }
        assert!(pool.values.len() <= 2 * SPARE);
        assert!(Arc::ptr_eq(&first, &pool.intern("a")), "it is in use");
    }

    #[test]
    fn values_in_use_are_held_however_many_they_are() {
        let mut pool: Interner<u64> = Interner::default();
        let held: Vec<_> = (0..5 * SPARE as u64).map(|n| pool.intern_value(n)).collect();
        assert!(
            held.iter()
                .all(|value| Arc::ptr_eq(value, &pool.intern_value(**value)))
        );
    }
}
