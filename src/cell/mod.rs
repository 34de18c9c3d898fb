//! The cell's role: from a `WorkloadDeployment` to running Instances, and back to the hub (contract: cell.md).
//!
//! * [`instances`]: instance control, a library of values; [`size`]: how large Instances are; [`limits`]: what is allowed.
//! * [`deployment`], [`instance`], [`provider`], [`releases`]: the controllers; [`network`] and [`writeback`] are parts of
//!   the first two.
//! * [`world`]: the index; [`context`], [`effects`], [`pace`], [`breaker`]: what the controllers share; [`run`]: the running role.

pub mod breaker;
pub mod context;
pub mod deployment;
pub mod effects;
#[cfg(test)]
pub(crate) mod fixture;
pub mod instance;
pub mod instances;
pub mod limits;
pub mod network;
pub mod pace;
pub mod provider;
pub mod releases;
pub mod run;
pub mod size;
pub mod world;
pub mod writeback;
