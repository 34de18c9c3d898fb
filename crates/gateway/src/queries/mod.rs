//! Questions to the index that several controllers ask.

pub mod cities;
pub mod instances;
pub mod lifecycle;
pub mod references;
