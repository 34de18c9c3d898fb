//! The cell's role: from a `WorkloadDeployment` to running Instances, and back to the hub (contract: cell.md).
//!
//! * [`instances`]: instance control, a library of values; [`size`]: how large Instances are; [`limits`]: what is allowed.
//! * [`deployment`], [`instance`], [`provider`], [`releases`]: the controllers; [`network`] and [`writeback`] are parts of
//!   the first two.
//! * [`world`]: the index; [`context`], [`effects`], [`pace`], [`breaker`]: what the controllers share; [`run`]: the running role.

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
