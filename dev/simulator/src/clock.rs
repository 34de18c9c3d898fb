//! Wall-clock time: a fixed start, and what has passed on tokio's clock since.

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600;

/// A clock that shows the same times in each run with paused time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    /// By how many seconds it is off.
    off: i64,
    /// True if the clock stands still: it shows its offset alone.
    stopped: bool,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
            off: 0,
            stopped: false,
        }
    }

    /// From now on only jumps move it.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// From now on it is off by so much more.
    pub(crate) fn jump(&mut self, by: Duration, forth: bool) {
        let by = i64::try_from(by.as_secs()).unwrap_or(0);
        self.off += if forth { by } else { -by };
    }

    pub(crate) fn elapsed(self) -> Duration {
        Instant::now().saturating_duration_since(self.origin)
    }

    /// The time in whole seconds, as metadata has it.
    pub(crate) fn now(self) -> String {
        let passed = if self.stopped { 0 } else { self.elapsed().as_secs() };
        let passed = i64::try_from(passed).unwrap_or(0);
        Timestamp::from_second(START)
            .and_then(|start| start.checked_add(SignedDuration::from_secs(passed + self.off)))
            .unwrap_or(Timestamp::UNIX_EPOCH)
            .to_string()
    }
}
