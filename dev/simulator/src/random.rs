//! Numbers that look random and follow from a seed.

use std::{ops::RangeInclusive, time::Duration};

/// A splitmix64 sequence.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another sequence, which follows from this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Whether an event of this probability happens.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        // 32 bits are exact in a float, and fine enough for a test's probabilities.
        let drawn = f64::from(u32::try_from(self.number() >> 32).unwrap_or(u32::MAX));
        drawn < probability * f64::from(u32::MAX)
    }

    /// A duration of the range, in whole microseconds.
    pub(crate) fn duration(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let micros = |duration: &Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let (from, to) = (micros(range.start()), micros(range.end()));
        let width = to.saturating_sub(from).saturating_add(1);
        Duration::from_micros(from + self.number() % width)
    }

    /// An identity in the form of a UUID, version 4.
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.number(), self.number());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }

    /// Five characters, as API servers put them behind `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut number = self.number();
        (0..5)
            .map(|_| {
                let letter = ALPHABET[usize::try_from(number % 27).unwrap_or(0)];
                number /= 27;
                char::from(letter)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_draws() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        let range = Duration::from_millis(1)..=Duration::from_millis(3);
        for _ in 0..100 {
            let drawn = one.duration(&range);
            assert_eq!(drawn, two.duration(&range));
            assert!(range.contains(&drawn), "{drawn:?}");
        }
        let id = one.uuid();
        assert_eq!(id, two.uuid());
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
    }
}
