//! When a plane that did not answer is asked again.

use std::time::Duration;
use tokio::time::Instant;

/// First pause; it doubles with each failure.
const FIRST: Duration = Duration::from_secs(10);
/// Longest pause.
const LONGEST: Duration = Duration::from_mins(5);

/// See the module.
#[derive(Debug, Default)]
pub struct ReleaseBackoff {
    failures: u32,
    until: Option<Instant>,
}

impl ReleaseBackoff {
    /// How long nobody asks; `None` if it may be asked now.
    pub fn closed_for(&self, now: Instant) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// It gave no answer. Returns how long nobody asks now.
    pub fn failed(&mut self, now: Instant) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_minutes_and_then_one_may_ask() {
        let (mut breaker, now) = (ReleaseBackoff::default(), Instant::now());
        assert_eq!(breaker.closed_for(now), None);
        let pauses: Vec<u64> = (0..7).map(|_| breaker.failed(now).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(breaker.closed_for(now), Some(LONGEST));
        assert_eq!(breaker.closed_for(now + LONGEST), None);
    }
}
