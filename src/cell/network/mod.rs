//! A deployment's network at the cell: bindings, contexts, subnet claims and subnets (contract: cell.md §10).

pub mod decide;
