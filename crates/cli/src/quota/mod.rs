//! The project's quota of compute, and the Instances that wait for it (contract: cli.md §3).

mod buckets;
mod cities;

pub(crate) use buckets::{Bucket, buckets};
pub(crate) use cities::{CityRow, cities};
