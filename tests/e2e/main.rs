//! The acceptance behaviours of federation, each under its number, on real API servers.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod support;
fn main() {}
