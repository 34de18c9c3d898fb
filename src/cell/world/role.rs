//! What a cell watches, and where.

use crate::engine::key::{Key, Kind, Plane};
use kube::core::ApiResource;

/// One watch: a kind on a plane, for a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The cell's namespaces.
    Namespaces,
    /// The deployments that were delivered.
    Deployments,
    /// Their Instances.
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
    /// Records of what is still to be released elsewhere, in the cell's own namespace.
    Releases,
    /// Where the cell is.
    ServingLocations,
    /// Bindings of networks.
    Bindings,
    /// What bindings lead to.
    Contexts,
    /// Claims of subnets.
    SubnetClaims,
    /// Subnets.
    Subnets,
    /// The hub's Namespaces.
    HubNamespaces,
    /// The hub's deployments of this cell's city.
    HubDeployments,
    /// What this cell has written back.
    HubInstances,
    /// Claims of quota in a project.
    Claims,
}

const COMPUTE: (&str, &str) = ("compute.datumapis.com", "v1alpha");
const NETWORKING: (&str, &str) = ("networking.datumapis.com", "v1alpha");
const QUOTA: (&str, &str) = ("quota.miloapis.com", "v1alpha1");
const CORE: (&str, &str) = ("", "v1");
const POLICIES: (&str, &str) = ("networking.k8s.io", "v1");

impl Role {
    /// What is watched on the cell's own plane in any case.
    pub const CELL: [Self; 3] = [Self::Namespaces, Self::Deployments, Self::Instances];
    /// What the companions need.
    pub const DATA: [Self; 2] = [Self::ConfigMaps, Self::Secrets];
    /// What the provider needs.
    pub const PROVIDER: [Self; 3] = [Self::Pods, Self::Services, Self::NetworkPolicies];
    /// What the network path needs.
    pub const NETWORK: [Self; 5] = [
        Self::ServingLocations,
        Self::Bindings,
        Self::Contexts,
        Self::SubnetClaims,
        Self::Subnets,
    ];
    /// What the write-back needs.
    pub const HUB: [Self; 3] = [Self::HubNamespaces, Self::HubDeployments, Self::HubInstances];

    /// Group, version, kind and plural.
    pub fn resource(self) -> ApiResource {
        let ((group, version), kind, plural) = match self {
            Self::Namespaces | Self::HubNamespaces => (CORE, "Namespace", "namespaces"),
            Self::Deployments | Self::HubDeployments => {
                (COMPUTE, "WorkloadDeployment", "workloaddeployments")
            }
            Self::Instances | Self::HubInstances => (COMPUTE, "Instance", "instances"),
            Self::ConfigMaps | Self::Releases => (CORE, "ConfigMap", "configmaps"),
            Self::Secrets => (CORE, "Secret", "secrets"),
            Self::Pods => (CORE, "Pod", "pods"),
            Self::Services => (CORE, "Service", "services"),
            Self::NetworkPolicies => (POLICIES, "NetworkPolicy", "networkpolicies"),
            Self::ServingLocations => (NETWORKING, "ServingLocation", "servinglocations"),
            Self::Bindings => (NETWORKING, "NetworkBinding", "networkbindings"),
            Self::Contexts => (NETWORKING, "NetworkContext", "networkcontexts"),
            Self::SubnetClaims => (NETWORKING, "SubnetClaim", "subnetclaims"),
            Self::Subnets => (NETWORKING, "Subnet", "subnets"),
            Self::Claims => (QUOTA, "ResourceClaim", "resourceclaims"),
        };
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// Its kind.
    pub fn kind(self) -> Kind {
        Kind::of(&self.resource())
    }

    /// A key of this kind on the cell's own plane.
    pub fn key(self, namespace: &str, name: &str) -> Key {
        Key::new(Plane::Cell, self.kind(), namespace, name)
    }
}
