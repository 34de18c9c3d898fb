//! The network of a deployment: bindings, contexts, claims and subnets (contract: cell.md §10).

pub mod decide;
#[cfg(test)]
mod tests;
