//! Facts that no row says: what this process is about to write, or has written with an unknown result.

pub mod arriving;
pub mod delivery;
pub mod lanes;
