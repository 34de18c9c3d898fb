//! What is known about a Workload when its pass begins.

use crate::api::{Quantity, Workload, WorkloadDeployment, names::HubNamespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that [`decide`](super::decide::decide) looks at.
#[derive(Debug, Clone)]
pub struct WorkloadSnapshot {
    /// The Workload.
    pub workload: Workload,
    /// Its deployments, leaving ones included: those that it controls, and those that name it and have no controller.
    pub deployments: Vec<WorkloadDeployment>,
    /// Names of the other deployments in its namespace that a deployment of its own may want, and whether each is
    /// terminating.
    pub held: BTreeMap<String, bool>,
    /// The hub namespace of the Workload's namespace.
    pub hub_namespace: HubNamespace,
    /// What is checked beside the Workload itself.
    pub checks: Checks,
}

/// Checks against other objects, each a setting, and the tables of what is known.
#[derive(Debug, Clone)]
pub struct Checks {
    /// K1: whether the interfaces' Networks exist.
    pub networks: Networks,
    /// K2: whether interfaces may name Networks of other namespaces.
    pub foreign_networks: bool,
    /// K3: whether cities have a Location.
    pub locations: Locations,
    /// K4: what may be asked for.
    pub catalog: Catalog,
}

impl Default for Checks {
    /// No look at Networks and Locations; the built-in catalog.
    fn default() -> Self {
        Self {
            networks: Networks::Unchecked,
            foreign_networks: false,
            locations: Locations::Unchecked,
            catalog: Catalog::default(),
        }
    }
}

/// What is known about Networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Networks {
    /// The check is off.
    Unchecked,
    /// The check is on, and the first list is not complete.
    Pending,
    /// Namespace and name of every Network that matters and exists.
    Existing(BTreeSet<(String, String)>),
}

/// What is known about Locations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Locations {
    /// The check is off: every city counts.
    Unchecked,
    /// The check is on, and the first list is not complete.
    Pending,
    /// City codes that have a Location which is not Ready=False.
    Serving(BTreeSet<String>),
}

impl Locations {
    /// Whether a city may get deployments, as far as is known.
    pub fn serve(&self, city: &str) -> bool {
        match self {
            Self::Unchecked | Self::Pending => true,
            Self::Serving(cities) => cities.contains(city),
        }
    }
}

/// Known instance types and machine images; configuration (contract: api.md §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// Names of instance types.
    pub instance_types: BTreeSet<String>,
    /// Images and the storage that each needs.
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

/// The controlling owner.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// Whether the deployment is terminating.
pub(super) fn is_leaving(deployment: &WorkloadDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}
