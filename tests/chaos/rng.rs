//! Chance that a seed repeats: `SplitMix64`.

/// A sequence of numbers; the same seed gives the same sequence.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent sequence for each number, so that one actor's choices do not depend on another's pace.
    pub(crate) fn fork(&self, number: u64) -> Self {
        let mut own = Self(self.0 ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        own.next();
        own
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` on and below `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.between(0, of.len() as u64);
        &of[usize::try_from(index).unwrap_or_default()]
    }

    /// All of them in some order.
    pub(crate) fn shuffled<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        let mut left = of.to_vec();
        let mut order = Vec::new();
        while !left.is_empty() {
            let index = self.between(0, left.len() as u64);
            order.push(left.swap_remove(usize::try_from(index).unwrap_or_default()));
        }
        order
    }
}
