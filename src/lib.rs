//! fedgate: a federation gateway for Karmada.
//!
//! Tenants write to their own project control planes; fedgate syncs their specs to a Karmada hub, and returns status
//! and the cells' Instances. Below this package are `fedgate_api` (wire types), `fedgate_kinds` (federated kinds and
//! their Lua host), `fedgate_engine` (planes, watches, queue, executor, metrics), `fedgate_manifests`, `fedgate_operations`
//! (documents of the operations API) and `fedgate_terminal` (output of commands). Its modules,
//! whose dependencies `tests/layers.rs` enforces:
//!
//! * `explain`: what becomes of an object of a kind, played without a cluster.
//! * [`gateway`]: the controllers between projects and hub.
//! * [`cell`]: the controllers of a cell, from a deployment to its running Instances. [`cell`] and [`gateway`] do not
//!   depend on each other.
//! * [`returns`]: at a member, Secrets of objects that live there go back to the hub.
//! * [`config`]: the flags of the roles. [`commands`]: the command line. [`client`]: the commands that ask a running gateway.
//! * [`admin`], [`telemetry`]: the address that serves health and metrics, and logs. [`operations`]: the API that is served
//!   there.
//! * [`console`]: the page for browsers, and their sessions.
//! * [`doctor`]: checks of hub and projects, before the start and on demand.
//! * [`membership`]: cells join, drain and leave, projects come and go, as commands.
//! * [`process`]: the process around a role.
//! * [`views`]: the parts of the operations API that both roles fill alike.
//!
//! Comments name sections of the contract, such as `federation.md §3.4 step 7`: its documents are in `docs/contract`.

#![forbid(unsafe_code)]

pub mod admin;
pub mod cell;
pub mod client;
pub mod commands;
pub mod config;
pub mod console;
pub mod doctor;
#[cfg(feature = "checks")]
pub mod explain;
pub mod gateway;
pub mod membership;
pub mod operations;
pub mod process;
pub mod returns;
pub mod telemetry;
pub mod views;
