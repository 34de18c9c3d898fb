//! Facts that follow from the rows alone: each change of a row updates them, and the same rows give the same facts.

pub mod bindings;
pub mod by_cell;
pub mod known_plane;
pub mod lacking;
pub mod ownership;
pub mod project_hub;
pub mod proof;
pub mod readiness;
pub mod secondary;
pub mod summary;
pub mod teardown;
pub mod touched;
pub mod undelivered;
pub mod withheld;
