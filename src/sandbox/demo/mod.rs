//! `fedgate sandbox demo`: a Workload's way to its cells and back, told as it happens on all planes.
//!
//! Everything is real but the cells' own program, whose part [`cell`] plays, and, without Karmada's executables, the
//! hub's controllers.

mod cell;
mod gateway;
mod inventory;
mod journal;
mod kinds;
mod run;
mod story;
mod table;
mod words;

pub(super) use run::{here, how_to_use, story_of};
