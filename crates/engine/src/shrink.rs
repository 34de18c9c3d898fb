//! Room that a map once needed, and gives back.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
};

/// Room that no map gives back.
const SMALL: usize = 1_024;
/// A map that is filled to less than this share of its room gives most of it back.
const SHARE: usize = 8;

/// To be called when something was taken out. Maps never shrink by themselves, and a start fills some with everything
/// there is.
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
