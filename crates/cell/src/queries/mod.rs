//! Questions to the index that several controllers ask.

pub mod network;
