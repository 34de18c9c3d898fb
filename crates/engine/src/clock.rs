//! The clock, injected so that tests can decide at any time.

use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A reading of both clocks: wall clock for timestamps in objects, monotonic clock for timeouts.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Wall-clock time in whole seconds, the precision of Kubernetes timestamps.
    pub wall: Timestamp,
    /// Monotonic time, unaffected by jumps of the wall clock.
    pub instant: Instant,
}

impl Now {
    /// Time since `then`, a timestamp from a server; zero if `then` is in the future.
    pub fn since_wall(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.wall.duration_since(then)).unwrap_or_default()
    }

    /// Time since `then`; zero if `then` is in the future.
    pub fn since(&self, then: Instant) -> Duration {
        self.instant.saturating_duration_since(then)
    }
}

/// Source of [`Now`].
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Now + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The system clock.
    pub fn system() -> Self {
        Self::of(Timestamp::now)
    }

    /// A clock with the caller's wall clock, for tests.
    pub fn of(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Now {
            wall: wall(),
            instant: Instant::now(),
        }))
    }

    /// A clock with a constant wall clock, for tests.
    pub fn fixed(at: Timestamp) -> Self {
        Self::of(move || at)
    }

    /// A clock whose caller says what time it is on both.
    pub fn reading(now: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        let Now { wall, instant } = (self.0)();
        Now {
            wall: Timestamp::from_second(wall.as_second()).unwrap_or(wall),
            instant,
        }
    }
}
