//! The cell's role: from a `WorkloadDeployment` to running Instances, and back to the hub (contract: cell.md).

pub mod deployment;
pub mod instance;
pub mod instances;
pub mod network;
pub mod provider;
pub mod size;
