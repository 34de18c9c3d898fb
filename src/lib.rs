//! fedgate: a federation gateway for Karmada.
//!
//! Tenants write to their own project control planes; fedgate syncs their specs to a Karmada hub, and returns status
//! and the cells' Instances. Map of the modules, lowest first; `tests/layers.rs` enforces their dependencies:
//!
//! * [`api`]: wire types, keys and name newtypes. No I/O, no dependency on other modules.
//! * [`lua`]: a Lua host equal to Karmada's. No dependency on other modules.
//! * [`kinds`]: federated kinds, read from `interpreters/`. Uses `api` and `lua`.
//! * [`engine`]: key, queue, workers, plan, executor, diff, errors, clock, random. Independent of workloads.
//! * [`plane`]: clients, watches, tables, discovery of project planes, lease.
//! * [`gateway`]: the controllers between projects and hub.
//! * [`cell`]: the controllers of a cell, from a deployment to its running Instances. [`cell`] and [`gateway`] do not
//!   depend on each other.
//! * [`metrics`], [`telemetry`], [`admin`]: metrics, logs, and the address that serves them. [`metrics`] depends on no
//!   other module, and many modules use it.
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
pub mod cell;
pub mod commands;
pub mod config;
pub mod doctor;
pub mod gateway;
pub mod process;
pub mod sandbox;
pub mod telemetry;
