//! Objects that live at exactly one member: chosen by Karmada, pinned on the hub before anything is delivered, and
//! delivered by lanes (contract: clusters.md §3).

pub mod conditions;
pub mod decide;
pub mod deletion;
pub mod observe;

pub use observe::{Lanes, observe};
