//! Limits that a cell enforces itself, because other planes may have other definitions.

use super::instance_types::InstanceTypes;

pub use fedgate_api::crd::MAX_REPLICAS;

/// The limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of Instances of a deployment.
    pub replicas: u32,
    /// The known instance types and their sizes.
    pub sizes: InstanceTypes,
    /// True if interfaces may name Networks of other namespaces.
    pub cross_namespace_networks: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            replicas: 1000,
            sizes: InstanceTypes::default(),
            cross_namespace_networks: false,
        }
    }
}
