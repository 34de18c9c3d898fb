//! The runtime of every role: one queue, its workers, and the failures of its keys.

pub mod failures;
pub mod queue;
pub mod workers;
