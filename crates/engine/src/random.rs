//! The process's one source of chance: it keys hash maps and digests, and spreads delays.
//!
//! It is drawn once, at its first use, so that nobody outside can prepare values that collide. A test fixes it instead,
//! and a run on a paused clock then replays exactly: no order of a map and no delay depends on anything else.

use std::{
    cell::Cell,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    sync::OnceLock,
};

static KEY: OnceLock<u64> = OnceLock::new();

thread_local! {
    static FIXED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A map whose order is settled by [`Chance`].
pub type HashMap<K, V> = std::collections::HashMap<K, V, Random>;
/// A set whose order is settled by [`Chance`].
pub type HashSet<K> = std::collections::HashSet<K, Random>;

/// See the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Random {
    /// Fixes the key for all that follows on this thread, for runs that must replay.
    pub fn seed(key: u64) {
        FIXED.set(Some(key));
    }

    /// A share of one, from 0 to 255/256, that stays the same for the same `of` within this process.
    pub fn fraction(of: impl Hash) -> f64 {
        // 256 steps spread enough, and convert without loss.
        f64::from(u8::try_from(Self.hash_one(of) % 256).unwrap_or_default()) / 256.0
    }
}

impl BuildHasher for Random {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let drawn = || *KEY.get_or_init(|| RandomState::new().hash_one(()));
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(FIXED.get().unwrap_or_else(drawn));
        hasher
    }
}
