//! The store: tables of digests, one per watched kind, filled by watch events.

pub mod apply;
pub mod table;
