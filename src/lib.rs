//! fedgate: a federation gateway for Karmada.
//!
//! Tenants write to their own project control planes; fedgate carries what they wrote to a Karmada hub and brings
//! status and the cells' Instances back. The map of modules, lowest first; an arrow in `tests/layers.rs` holds it:
//!
//! * [`api`]: wire types, keys and name newtypes. No I/O, uses nothing of ours.
//! * [`lua`]: a Lua host equal to Karmada's. Uses nothing of ours.
//! * [`kinds`]: federated kinds, read from `interpreters/`. Uses `api` and `lua`.
//! * [`engine`]: key, queue, workers, plan, executor, diff, errors, clock, chance. Knows no workload.
//! * [`plane`]: clients, watches, index, discovery of project planes, lease.
//! * [`gateway`]: the controllers that join projects and hub.
//! * [`cell`]: the controllers of a cell, from a deployment to its running Instances. It and [`gateway`] do not know each
//!   other.
//! * [`metrics`], [`telemetry`], [`admin`]: figures, logs, and the address that serves them. [`metrics`] uses nothing of
//!   ours and is used everywhere.
//! * [`manifests`]: definitions, roles and policies that an administrator applies. Uses `api` and `kinds`.
//! * [`config`]: the flags of the roles.
//! * [`doctor`]: checks of hub and projects, before the start and on demand.
//! * [`process`]: the process around a role.
//! * [`sandbox`]: etcd, kube-apiserver and Karmada (or its stand-in) as local processes.
//! * [`commands`]: the command line. Uses `config` and `sandbox`.
//!
//! Comments name sections of the contract, such as `federation.md §3.4 step 7`: its documents are in `docs/contract`.

#![forbid(unsafe_code)]

pub mod admin;
pub mod api;
pub mod cell;
pub mod commands;
pub mod config;
pub mod doctor;
pub mod engine;
pub mod gateway;
pub mod kinds;
pub mod lua;
pub mod manifests;
pub mod metrics;
pub mod plane;
pub mod process;
pub mod sandbox;
pub mod telemetry;
