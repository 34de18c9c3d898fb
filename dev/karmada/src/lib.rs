//! Karmada's decisions as pure functions, as in its release of August 2026: which policy claims a template, which objects
//! and members a selector matches, where a binding is scheduled, what its Works say, and what a member gets of them.
//!
//! The sandbox's stand-in of Karmada and the simulator decide with these functions; tests/conformance compares the stand-in with
//! Karmada itself.

#![forbid(unsafe_code)]

pub mod binding;
pub mod claim;
pub mod condition;
mod fit;
pub mod manifest;
pub mod names;
mod object;
pub mod schedule;
pub mod select;
pub mod work;

pub use object::{Object, list, merge};
