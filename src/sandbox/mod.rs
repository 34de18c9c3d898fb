//! See the crate's map.

pub mod standin;
