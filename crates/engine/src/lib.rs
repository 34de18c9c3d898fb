//! The engine under every controller: key, queue, workers, plan, executor, diff, errors, clock. It is independent of
//! any workload kind.
//!
//! A controller *observes* the known state of a [`key::Key`], *decides* with a pure function and returns a
//! [`plan::Plan`], and the one [`executor::Executor`] executes it. [`queue::Queue`] schedules the keys, and
//! [`workers::Workers`] run the controllers of a role for them.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod circuit_breaker;
pub mod clock;
pub mod diff;
pub mod error;
pub mod executor;
pub mod failures;
pub mod fights;
pub mod gate;
pub mod interner;
pub mod key;
pub mod memory;
pub mod metrics;
pub mod object;
pub mod permissions;
pub mod plan;
pub mod plane;
pub mod quarantine;
pub mod queue;
pub mod random;
pub mod shrink;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod throttle;
pub mod watch_channel;
pub mod workers;
