//! Wire types of the kinds we know, keys, conditions and name newtypes. No I/O.

pub mod keys;
pub mod names;
