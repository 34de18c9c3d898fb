//! Test doubles for the unit tests of this package and, by the feature `testing`, of others.

// Test doubles fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod access;
pub mod lease;
#[cfg(test)]
pub(crate) mod logs;
