//! Planes, the gateway process, the played cell, waits, and what a failure shows.

pub(crate) mod audit;
pub(crate) mod case;
pub(crate) mod cell;
pub(crate) mod credentials;
mod dump;
pub(crate) mod federated;
pub(crate) mod gate;
pub(crate) mod gateway;
pub(crate) mod http;
pub(crate) mod kinds;
pub(crate) mod log_lines;
pub(crate) mod objects;
pub(crate) mod plane;
pub(crate) mod policies;
pub(crate) mod process;
pub(crate) mod rights;
pub(crate) mod role;
pub(crate) mod suite;
pub(crate) mod tls;
mod trials;
mod worlds;

pub(crate) use audit::Entry;
pub(crate) use case::{Case, annotation, condition, has_finalizer, hub_namespace, label, uid, unique_city};
pub(crate) use cell::Cell;
pub(crate) use objects::{deployment, deployment_with_data};
pub(crate) use plane::{seconds, wait_for};
pub(crate) use suite::rest_seconds;
pub(crate) use trials::{RUNTIME, TestCase, is_core, lone_trials, text, trial, trials, with_cleanup};
pub(crate) use worlds::{Tests, dir, in_all_worlds, in_order, run_all};
