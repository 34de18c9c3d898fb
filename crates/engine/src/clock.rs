//! The clock, injected so that decisions can be tested at any time.

use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// One reading: the wall clock for what is written, the monotonic clock for what is awaited.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Wall-clock time, whole seconds, as Kubernetes writes times.
    pub wall: Timestamp,
    /// Monotonic time, unmoved by jumps of the wall clock.
    pub instant: Instant,
}

impl Now {
    /// How long ago a time that a server wrote was; zero if it lies ahead.
    pub fn since_wall(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.wall.duration_since(then)).unwrap_or_default()
    }

    /// How long ago `then` was; zero if it lies ahead.
    pub fn since(&self, then: Instant) -> Duration {
        self.instant.saturating_duration_since(then)
    }
}

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::of(Timestamp::now)
    }

    /// A wall clock of the caller's, for tests.
    pub fn of(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(wall))
    }

    /// A wall clock that stands still, for tests.
    pub fn fixed(at: Timestamp) -> Self {
        Self::of(move || at)
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        let wall = (self.0)();
        Now {
            wall: Timestamp::from_second(wall.as_second()).unwrap_or(wall),
            instant: Instant::now(),
        }
    }
}
