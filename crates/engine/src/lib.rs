//! The engine under every controller: key, queue, workers, plan, executor, diff, errors, clock. It is independent of
//! any workload kind.
//!
//! A controller *observes* the known state of a [`key::Key`], *decides* with a pure function and returns a
//! [`plan::Plan`], and the one [`executor::Executor`] executes it; [`runtime::driver`] is the loop of all controllers.
//! [`runtime::Runtime`] engages the planes of a [`runtime::role::Role`], fills its index, and runs its controllers on the
//! keys of the [`runtime::queue::Queue`].

#![forbid(unsafe_code)]

pub mod backoff;
pub mod circuit_breaker;
pub mod clock;
pub mod diff;
pub mod error;
pub mod executor;
pub mod interner;
pub mod key;
mod labels;
pub mod message;
pub mod metrics;
pub mod object;
pub mod plan;
pub mod plane;
pub mod random;
pub mod reconcile;
pub mod runtime;
mod shared_map;
pub mod shrink;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch_channel;

pub use fedgate_api::words;
