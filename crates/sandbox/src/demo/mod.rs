//! `fedgate-sandbox demo`: a Workload's way to its cells and back, told as it happens on all planes.
//!
//! Gateway and cells are the real ones. Played are Pods, networking, quota and, without Karmada's executables, the hub's
//! controllers.

mod hops;
mod inventory;
mod journal;
mod kinds;
mod roles;
mod run;
mod state;
mod story;
mod table;
mod tenant;
mod typed;
mod words;

pub(super) use run::{here, how_to_use, story_of};
