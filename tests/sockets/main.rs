//! The real client over TCP and TLS, against the simulator's planes: servers that go away in good order, connections that
//! are half open or cut, and another server behind the same address.
//!
//! What is awaited is an event or an answer; the limits on that are so wide that only what never comes exceeds them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing test says where"
)]

mod calls;
mod client;
mod relay;
mod server;
mod watches;
