//! The role `cell`: from a `WorkloadDeployment` to running Instances, and back to the hub (contract: cell.md).
//!
//! * [`rollout`]: which Instances in which order, a library of values; [`instance_types`]: sizes; [`limits`]: what a cell
//!   allows.
//! * [`deployment`], [`instance`], [`provider`], [`releases`]: the controllers; [`network`] and [`writeback`] are parts of
//!   the first two.
//! * [`index`]: digests of the watched objects; [`context`], [`writes`]: shared by the controllers; [`run`]: the running
//!   role.

pub mod context;
pub mod deployment;
pub mod index;
pub mod instance;
pub mod instance_types;
pub mod limits;
pub mod network;
pub mod provider;
pub mod releases;
pub mod rollout;
pub mod run;
#[cfg(test)]
pub(crate) mod testing;
pub mod writeback;
pub mod writes;
