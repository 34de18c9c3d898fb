//! fedgate: a federation gateway for Karmada.
//!
//! Tenants write to their own project control planes; fedgate syncs their specs to a Karmada hub, and returns status
//! and the cells' Instances. This package wires the others together: `fedgate_gateway`, `fedgate_cell`, `fedgate_returns` and
//! `fedgate_provisioner` are the roles, `fedgate_views` answers for the gateway what operators ask, `fedgate_operator` has their commands, and `fedgate_admin`
//! serves the administrative address.
//!
//! * [`config`]: the flags of the roles. [`commands`]: the command line.
//! * [`process`]: the process around a role. [`telemetry`]: its logs.
//!
//! Comments name sections of the contract, such as `federation.md §3.4 step 7`: its documents are in `docs/contract`.

#![forbid(unsafe_code)]

pub mod commands;
pub mod config;
pub mod process;
pub mod telemetry;
