//! The tables of the index: each is one watch of a kind on a plane.

use fedgate_engine::{
    key::{Key, Kind, Plane},
    plan::Target,
};
use kube::core::{ApiResource, GroupVersionKind};

/// One watch: a kind on a plane, for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableId {
    /// Namespaces of the cell.
    Namespaces,
    /// Deployments that Karmada delivered to the cell.
    Deployments,
    /// Instances of the cell.
    Instances,
    /// Companion `ConfigMaps`.
    ConfigMaps,
    /// Companion Secrets.
    Secrets,
    /// The provider's Pods.
    Pods,
    /// The provider's Services.
    Services,
    /// The provider's `NetworkPolicies`.
    NetworkPolicies,
    /// Records of claims and write-backs that are still to be released on other planes, in the cell's own namespace.
    Releases,
    /// Locations of the cell, as the network services deliver them.
    ServingLocations,
    /// Locations of the cell, as Milo's locations service delivers them.
    MiloServingLocations,
    /// `NetworkBindings`.
    Bindings,
    /// `NetworkContexts`, to which bindings refer.
    Contexts,
    /// `SubnetClaims`.
    SubnetClaims,
    /// Subnets.
    Subnets,
    /// Namespaces of the hub.
    HubNamespaces,
    /// Deployments of the hub that are delivered to this cell's city; all if the city is unknown.
    HubDeployments,
    /// Deployments of the hub that are delivered to this cell's location.
    HubDeploymentsHere,
    /// Instances on the hub that this cell has written back.
    HubInstances,
    /// Quota claims in a project.
    Claims,
}

const COMPUTE: (&str, &str) = ("compute.datumapis.com", "v1alpha");
const NETWORKING: (&str, &str) = ("networking.datumapis.com", "v1alpha");
const LOCATIONS: (&str, &str) = ("locations.miloapis.com", "v1alpha1");
const QUOTA: (&str, &str) = ("quota.miloapis.com", "v1alpha1");
const CORE: (&str, &str) = ("", "v1");
const POLICIES: (&str, &str) = ("networking.k8s.io", "v1");

impl TableId {
    /// Tables that are always watched on the cell's own plane.
    pub const CELL: [Self; 3] = [Self::Namespaces, Self::Deployments, Self::Instances];
    /// Tables of the companions.
    pub const DATA: [Self; 2] = [Self::ConfigMaps, Self::Secrets];
    /// Tables of the provider.
    pub const PROVIDER: [Self; 3] = [Self::Pods, Self::Services, Self::NetworkPolicies];
    /// Tables that tell the cell's location. A cell serves one of their kinds or both.
    pub const SERVING: [Self; 2] = [Self::ServingLocations, Self::MiloServingLocations];
    /// Tables of networking.
    pub const NETWORK: [Self; 4] = [Self::Bindings, Self::Contexts, Self::SubnetClaims, Self::Subnets];
    /// Tables of the write-back.
    pub const HUB: [Self; 4] = [
        Self::HubNamespaces,
        Self::HubDeployments,
        Self::HubDeploymentsHere,
        Self::HubInstances,
    ];

    /// Group, version, kind and plural.
    pub fn resource(self) -> ApiResource {
        let ((group, version), kind, plural) = match self {
            Self::Namespaces | Self::HubNamespaces => (CORE, "Namespace", "namespaces"),
            Self::Deployments | Self::HubDeployments | Self::HubDeploymentsHere => {
                (COMPUTE, "WorkloadDeployment", "workloaddeployments")
            }
            Self::Instances | Self::HubInstances => (COMPUTE, "Instance", "instances"),
            Self::ConfigMaps | Self::Releases => (CORE, "ConfigMap", "configmaps"),
            Self::Secrets => (CORE, "Secret", "secrets"),
            Self::Pods => (CORE, "Pod", "pods"),
            Self::Services => (CORE, "Service", "services"),
            Self::NetworkPolicies => (POLICIES, "NetworkPolicy", "networkpolicies"),
            Self::ServingLocations => (NETWORKING, "ServingLocation", "servinglocations"),
            Self::MiloServingLocations => (LOCATIONS, "ServingLocation", "servinglocations"),
            Self::Bindings => (NETWORKING, "NetworkBinding", "networkbindings"),
            Self::Contexts => (NETWORKING, "NetworkContext", "networkcontexts"),
            Self::SubnetClaims => (NETWORKING, "SubnetClaim", "subnetclaims"),
            Self::Subnets => (NETWORKING, "Subnet", "subnets"),
            Self::Claims => (QUOTA, "ResourceClaim", "resourceclaims"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    /// The kind of the table's objects.
    pub fn kind(self) -> Kind {
        Kind::of(&self.resource())
    }

    /// An object of this table, which is on the hub or on the cell's own plane.
    pub fn target(self, namespace: &str, name: &str) -> Target {
        let plane = if Self::HUB.contains(&self) {
            Plane::Hub
        } else {
            Plane::Cell
        };
        Target::namespaced(plane, &self.resource(), namespace, name)
    }

    /// A key of this kind on the cell's own plane.
    pub fn key(self, namespace: &str, name: &str) -> Key {
        Key::new(Plane::Cell, self.kind(), namespace, name)
    }
}
