//! API resources that the gateway uses beside the federated kinds.

use super::locations::{LocationKind, availability_resource};
use kube::core::ApiResource;

/// An API resource; the core group is the empty string.
pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: if group.is_empty() {
            version.into()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The API resources that the gateway uses beside the federated kinds.
#[derive(Debug, Clone)]
pub struct Resources {
    /// v1 Namespace.
    pub namespaces: ApiResource,
    /// v1 `ConfigMap`.
    pub config_maps: ApiResource,
    /// Karmada's member cluster: a cell.
    pub clusters: ApiResource,
    /// Karmada's `ClusterPropagationPolicy`.
    pub city_sets: ApiResource,
    /// Karmada's `PropagationPolicy`.
    pub city_policies: ApiResource,
    /// Karmada's `ResourceBinding`.
    pub bindings: ApiResource,
    /// Karmada's `ResourceInterpreterCustomization`.
    pub interpreters: ApiResource,
    /// Workload of our compute API.
    pub workloads: ApiResource,
    /// The kinds that tell a project's locations, in the order of [`LocationKind::ALL`].
    locations: [ApiResource; LocationKind::ALL.len()],
    /// `ServiceAvailability` of the service catalogue.
    pub availabilities: ApiResource,
    /// Network of the network services.
    pub networks: ApiResource,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            namespaces: resource("", "v1", "Namespace", "namespaces"),
            config_maps: resource("", "v1", "ConfigMap", "configmaps"),
            clusters: resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"),
            city_sets: resource(
                "policy.karmada.io",
                "v1alpha1",
                "ClusterPropagationPolicy",
                "clusterpropagationpolicies",
            ),
            city_policies: resource(
                "policy.karmada.io",
                "v1alpha1",
                "PropagationPolicy",
                "propagationpolicies",
            ),
            bindings: resource(
                "work.karmada.io",
                "v1alpha2",
                "ResourceBinding",
                "resourcebindings",
            ),
            interpreters: resource(
                "config.karmada.io",
                "v1alpha1",
                "ResourceInterpreterCustomization",
                "resourceinterpretercustomizations",
            ),
            workloads: resource("compute.datumapis.com", "v1alpha", "Workload", "workloads"),
            locations: LocationKind::ALL.map(LocationKind::resource),
            availabilities: availability_resource(),
            networks: resource("networking.datumapis.com", "v1alpha", "Network", "networks"),
        }
    }
}

impl Resources {
    /// The resource of a kind that tells locations.
    pub fn location(&self, kind: LocationKind) -> &ApiResource {
        &self.locations[kind as usize]
    }
}
