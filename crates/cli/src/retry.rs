//! Retries of writes that others were faster with.

use backon::ExponentialBuilder;
use std::time::Duration;

/// The retries of a write after a conflict, each later than the one before and at a random time, so that users who meet
/// once do not meet again.
pub(crate) fn conflicts() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(50))
        .with_jitter()
        .with_max_times(5)
}
