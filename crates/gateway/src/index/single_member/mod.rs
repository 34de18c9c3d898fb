//! The index's part of objects that live at one member (contract: clusters.md): the policies that deliver them, the hub's
//! record of the member of each, and which policies are wanted.
//!
//! The controllers' part is `crate::single_member`. It reads the index, so that these values stand here.

mod adopted;
pub mod pin;
mod pins;
pub mod policy;
pub mod requested;

pub use adopted::AdoptedState;
pub use pin::{Ended, Pin, PinnedCluster, Pins};
pub use policy::{CopyPolicy, DeliveryPolicy, NO_MEMBER, Stage};
