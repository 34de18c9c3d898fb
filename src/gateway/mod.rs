//! The gateway: the controllers that join project planes and the hub.

pub mod companions;
pub mod confirm;
pub mod context;
pub mod federator;
pub mod garbage;
pub mod interpreters;
pub mod namespaces;
pub mod policies;
pub mod projector;
pub mod rate_limit;
#[cfg(test)]
mod rig;
pub mod run;
pub mod workload;
pub mod world;
