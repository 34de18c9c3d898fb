//! Questions to the index that several controllers ask.

pub mod cells;
pub mod cities;
pub mod instances;
pub mod lifecycle;
pub mod references;
