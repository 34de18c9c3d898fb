//! Input of a Workload's decision.

use crate::index::catalog::Catalog;
use fedgate_api::{
    ConditionStatus, Workload, WorkloadDeployment,
    conditions::{self, types},
    names::HubNamespace,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The city of each location that has one: the map of locations.md §2.1.
pub type Cities = BTreeMap<String, String>;

/// All input of [`decide`](super::decide::decide).
#[derive(Debug, Clone)]
pub struct WorkloadSnapshot {
    /// The Workload.
    pub workload: Workload,
    /// Deployments of the Workload, terminating ones included: those that it controls, and those that name it and have no
    /// controller.
    pub deployments: Vec<WorkloadDeployment>,
    /// Names of other deployments in its namespace that one of its deployments may need; true if the deployment is
    /// terminating.
    pub held: BTreeMap<String, bool>,
    /// The hub namespace of the Workload's namespace.
    pub hub_namespace: HubNamespace,
    /// UID of our hub, which its deployments are to name; `None` while that is not known.
    pub own_hub: Option<Arc<str>>,
    /// The cities of locations, by which a change between the two forms differs from a move.
    pub cities: Cities,
    /// True once the hub's Clusters are listed: before, a location that has no city may get one.
    pub clusters_listed: bool,
    /// Input of the checks beside the Workload itself.
    pub checks: Checks,
}

/// Checks against other objects, each enabled by a setting, and their input. By default there is none of Networks and
/// Locations, and the built-in catalog.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    /// K1: whether the interfaces' Networks exist.
    pub networks: Networks,
    /// K2: true if interfaces may name Networks of other namespaces.
    pub foreign_networks: bool,
    /// K3: whether cities have a Location.
    pub locations: Locations,
    /// The project's Locations by name, if they are read.
    pub listed: Option<Listed>,
    /// K4: known instance types and images.
    pub catalog: Catalog,
    /// K8: why the Workload's spec is not carried, if it is too large.
    pub too_large: Option<String>,
    /// The words of the project's API server when it refused a deployment.
    pub refused: Option<String>,
}

/// State of the project's Networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Networks {
    /// The check is disabled.
    #[default]
    Unchecked,
    /// The check is enabled, and the first list is incomplete.
    Pending,
    /// Namespace and name of every existing Network that the Workload may name.
    Existing(BTreeSet<(String, String)>),
}

/// The Locations of a project, by name.
pub type Listed = BTreeMap<String, ListedLocation>;

/// A Location of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedLocation {
    /// Topology of the location, over which a placement selects.
    pub topology: Arc<BTreeMap<String, String>>,
    /// True if it may get new deployments: it is neither terminating nor Ready=False, and the service is available there
    /// where the project says that of any.
    pub placeable: bool,
}

/// State of the project's Locations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Locations {
    /// The check is disabled: every city counts.
    #[default]
    Unchecked,
    /// The check is enabled, and the first list is incomplete.
    Pending,
    /// City codes that have a Location which is not Ready=False.
    Serving(BTreeSet<String>),
}

impl Locations {
    /// True if a city may get deployments, or if its Locations are not known.
    pub fn serve(&self, city: &str) -> bool {
        match self {
            Self::Unchecked | Self::Pending => true,
            Self::Serving(cities) => cities.contains(city),
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

/// True if the deployment is terminating.
pub(super) fn is_leaving(deployment: &WorkloadDeployment) -> bool {
    deployment.metadata.deletion_timestamp.is_some()
}

/// True if the deployment is available.
pub(super) fn serves(deployment: &WorkloadDeployment) -> bool {
    let status = deployment.status.as_ref();
    let available = status.and_then(|s| conditions::find(&s.conditions, types::AVAILABLE));
    available.is_some_and(|c| c.status == ConditionStatus::True)
}
