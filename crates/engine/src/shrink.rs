//! Shrinks a map that has become sparse.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
};

/// Capacity that a map always keeps.
const SMALL: usize = 1_024;
/// A map with fewer entries than its capacity divided by this number shrinks.
const SHARE: usize = 8;

/// Shrinks a sparse map; call it after a removal. Maps never shrink by themselves, and some hold every object right
/// after the start.
pub fn shrink_if_sparse<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.capacity() > SMALL && map.len() < map.capacity() / SHARE {
        map.shrink_to((2 * map.len()).max(SMALL / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_longer_needed_goes_and_a_small_map_stays_as_it_is() {
        let mut map: HashMap<usize, usize> = (0..10 * SMALL).map(|n| (n, n)).collect();
        while let Some(key) = map.keys().next().copied() {
            map.remove(&key);
            shrink_if_sparse(&mut map);
            assert!(map.capacity() <= SMALL || map.capacity() <= SHARE * (map.len() + 1) * 2);
        }
        assert!(map.capacity() <= SMALL);
        let before = map.capacity();
        shrink_if_sparse(&mut map);
        assert_eq!(map.capacity(), before);
    }
}
