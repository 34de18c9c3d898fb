//! Proofs on simulated planes: a gateway in this process, on one thread and a paused clock, so that a run replays exactly.
//! docs/reliability.md says what is proven, and how to replay a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing test says where"
)]

mod absence;
mod backwards;
mod bindings;
mod carry;
mod cell;
mod cells;
mod cities;
mod crash;
mod delays;
mod disasters;
mod end;
mod faults;
mod flow;
mod invariants;
mod large;
mod leader;
mod locations;
#[path = "../../crates/engine/src/testing/logs.rs"]
mod logs;
mod lost;
mod moves;
mod objects;
mod operations;
mod ops;
mod outage;
mod pauses;
mod planted;
mod race;
mod random;
mod redaction;
mod rig;
mod scenarios;
mod stale;
mod state;
mod stuck;
mod two_hubs;
mod vault;
mod walls;
mod wire;
