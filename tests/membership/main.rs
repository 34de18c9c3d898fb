//! `fedgate cells` between simulated planes: a command that is killed after any of its writes, one that meets what an earlier
//! one has left to end, and one that meets another program's agent.
//!
//! The commands run in this process, by the kubeconfigs and over the sockets that they would use. Tests await events;
//! the limits on that are so wide that only what never comes exceeds them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing test says where"
)]

mod adoption;
mod kills;
mod owners;
mod players;
mod returns;
mod server;
mod world;
