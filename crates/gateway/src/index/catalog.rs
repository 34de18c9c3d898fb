//! Instance types and machine images that Workloads may name.

use fedgate_api::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// Known instance types and machine images (contract: api.md §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Names of instance types.
    pub instance_types: BTreeSet<String>,
    /// Images and the storage that each image needs.
    pub images: BTreeMap<String, Quantity>,
}

impl Default for Catalog {
    fn default() -> Self {
        let types = ["datumcloud/d1-standard-2", "datumcloud-d1-standard-2"];
        Self {
            instance_types: types.map(str::to_owned).into(),
            images: [("datumcloud/ubuntu-2204-lts".to_owned(), Quantity::from("25Gi"))].into(),
        }
    }
}
