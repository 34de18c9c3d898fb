//! The network of a deployment: bindings, contexts, claims and subnets (contract: cell.md §10).

pub mod decide;
pub mod known;
#[cfg(test)]
mod tests;
