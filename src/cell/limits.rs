//! What a cell allows, whoever wrote the deployment: other planes may have other definitions.

use super::instance_types::InstanceTypes;

pub use fedgate_api::crd::MAX_REPLICAS;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How many Instances a deployment may have.
    pub replicas: u32,
    /// Sizes of the instance types, and which there are.
    pub sizes: InstanceTypes,
    /// Whether interfaces may name Networks of other namespaces.
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
