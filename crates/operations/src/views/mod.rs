//! The parts of the operations API that gateway and cell fill alike, from the runtime of the role.

pub mod header;
pub mod health;
pub mod journal;
pub mod page;
pub mod planes;
pub mod starting;
pub mod stuck;

use crate::Time;
use fedgate_engine::clock::Now;
use std::time::Duration;
use tokio::time::Instant;

/// The time that was `ago`.
pub fn before(now: Now, ago: Duration) -> Time {
    Time(now.wall.checked_sub(ago).unwrap_or(now.wall))
}

/// The wall-clock time of an instant.
pub fn wall(now: Now, at: Instant) -> Time {
    before(now, now.since(at))
}
