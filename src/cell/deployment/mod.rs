//! Deployment controller: a deployment's Instances, network and status at the cell (contract: cell.md §2).

pub mod status;
