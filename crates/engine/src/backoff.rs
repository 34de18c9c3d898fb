//! Exponential backoff: the one formula for every delay that grows with failures.

use crate::random::Random;
use std::{hash::Hash, time::Duration};
use tokio::time::Instant;

/// A delay that doubles with each failure up to a maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Longest delay.
    pub max: Duration,
    /// The share of a delay by which it may be shortened, from 0 to 1.
    pub jitter: f64,
}

impl Backoff {
    /// A backoff without jitter.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            jitter: 0.0,
        }
    }

    /// The backoff with each delay shortened at random by up to this share of it.
    #[must_use]
    pub const fn with_jitter(self, jitter: f64) -> Self {
        Self { jitter, ..self }
    }

    /// Delay after a failure that `failures` others came before in a row; `seed` decides the jitter, so that runs
    /// replay.
    pub fn delay(&self, failures: u32, seed: impl Hash) -> Duration {
        let base = self.first.saturating_mul(1 << failures.min(30)).min(self.max);
        if self.jitter == 0.0 {
            return base;
        }
        base.mul_f64(1.0 - self.jitter + self.jitter * Random::fraction(seed))
    }
}

/// Delays of a watch that fails, or that its server ends as soon as it has begun.
pub const WATCH: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// Failures in a row, and the time of the next attempt. The default has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetryTimer {
    failures: u32,
    not_before: Option<Instant>,
}

impl RetryTimer {
    /// Time until the next attempt; `None` if it may start.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let wait = self.not_before?.saturating_duration_since(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// Records a failure; returns the time until the next attempt.
    pub fn failed(&mut self, backoff: Backoff, now: Instant) -> Duration {
        let delay = backoff.delay(self.failures, self.failures);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_mins(5));

    #[test]
    fn delays_double_up_to_the_maximum() {
        let delays: Vec<u64> = (0..7).map(|n| BACKOFF.delay(n, ()).as_secs()).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(BACKOFF.delay(u32::MAX, ()), BACKOFF.max);
    }

    #[test]
    fn jitter_shortens_by_at_most_its_share_and_follows_the_seed() {
        let backoff = BACKOFF.with_jitter(0.25);
        let delays: Vec<Duration> = (0..100).map(|seed| backoff.delay(1, seed)).collect();
        let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!(*least >= Duration::from_secs(15) && *most <= Duration::from_secs(20));
        assert!(
            most.abs_diff(*least) > Duration::from_secs(3),
            "{least:?} {most:?}"
        );
        assert_eq!(backoff.delay(1, 7), backoff.delay(1, 7));
    }

    #[test]
    fn a_timer_holds_the_next_attempt_back_until_its_delay_is_over() {
        let (mut timer, now) = (RetryTimer::default(), Instant::now());
        assert_eq!(timer.wait(now), None);
        let delays: Vec<u64> = (0..7).map(|_| timer.failed(BACKOFF, now).as_secs()).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(timer.wait(now), Some(BACKOFF.max));
        assert_eq!(timer.wait(now + BACKOFF.max), None);
    }
}
