//! Parts that every controller needs for its reconciles.

pub mod memory;
pub mod normalized;
pub mod quarantine;
pub mod throttle;
