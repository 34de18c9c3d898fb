//! The process's one source of randomness: it keys hash maps and digests, and adds jitter to delays.
//!
//! The key is drawn at first use, so that no client can prepare values that collide. A test seeds it instead, so that a
//! run on a paused clock replays exactly: map orders and delays depend on nothing else.

use std::{
    cell::Cell,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    sync::OnceLock,
};

static KEY: OnceLock<u64> = OnceLock::new();

thread_local! {
    static FIXED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A hash map whose iteration order depends on [`Random`].
pub type HashMap<K, V> = std::collections::HashMap<K, V, Random>;
/// A hash set whose iteration order depends on [`Random`].
pub type HashSet<K> = std::collections::HashSet<K, Random>;

/// A hasher builder with the process's random key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

impl Random {
    /// Sets the key for the rest of this thread, for runs that must replay.
    pub fn seed(key: u64) {
        FIXED.set(Some(key));
    }

    /// A fraction from 0 to 255/256, constant for equal `of` within this process.
    pub fn fraction(of: impl Hash) -> f64 {
        // 256 steps are fine enough for jitter, and convert to `f64` without loss.
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
