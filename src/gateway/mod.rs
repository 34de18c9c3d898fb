//! The gateway: controllers between project planes and the hub.

pub mod companions;
pub mod confirm;
pub mod context;
pub mod federator;
pub mod garbage;
pub mod index;
pub mod interpreters;
pub mod namespaces;
pub mod policies;
pub mod projector;
pub mod rate_limit;
pub mod run;
#[cfg(test)]
mod testing;
pub mod workload;
