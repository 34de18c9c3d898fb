//! The engine under every controller: key, queue, workers, plan, executor, diff, errors, clock. It is independent of
//! any workload kind.
//!
//! A controller *observes* the known state of a [`key::Key`], *decides* with a pure function and returns a
//! [`plan::Plan`], and the one [`executor::Executor`] executes it. [`runtime::queue::Queue`] schedules the keys, and
//! [`runtime::workers::Workers`] run the controllers of a role for them.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod circuit_breaker;
pub mod clock;
pub mod diff;
pub mod error;
pub mod executor;
pub mod interner;
pub mod key;
pub mod metrics;
pub mod object;
pub mod plan;
pub mod plane;
pub mod random;
pub mod reconcile;
pub mod runtime;
pub mod shrink;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch_channel;
