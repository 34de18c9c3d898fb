//! The resources that the gateway touches and that are no federated kinds.

use fedgate_kinds::CompanionKind;
use kube::core::ApiResource;

/// A resource of a core or Karmada group.
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

/// The foreign resources that the gateway touches.
#[derive(Debug, Clone)]
pub struct Resources {
    /// v1 Namespace.
    pub namespaces: ApiResource,
    /// v1 `ConfigMap`.
    pub config_maps: ApiResource,
    /// v1 Secret.
    pub secrets: ApiResource,
    /// Karmada's member cluster: a cell.
    pub clusters: ApiResource,
    /// Karmada's cluster-scoped policy.
    pub city_sets: ApiResource,
    /// Karmada's namespaced policy.
    pub city_policies: ApiResource,
    /// Karmada's binding.
    pub bindings: ApiResource,
    /// Karmada's interpreter.
    pub interpreters: ApiResource,
    /// Our Workload.
    pub workloads: ApiResource,
    /// The network services' Location.
    pub locations: ApiResource,
    /// The network services' Network.
    pub networks: ApiResource,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            namespaces: resource("", "v1", "Namespace", "namespaces"),
            config_maps: resource("", "v1", "ConfigMap", "configmaps"),
            secrets: resource("", "v1", "Secret", "secrets"),
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
            locations: resource("networking.datumapis.com", "v1alpha", "Location", "locations"),
            networks: resource("networking.datumapis.com", "v1alpha", "Network", "networks"),
        }
    }
}

impl Resources {
    /// The resource of a companion kind.
    pub fn companion(&self, kind: CompanionKind) -> &ApiResource {
        match kind {
            CompanionKind::ConfigMap => &self.config_maps,
            CompanionKind::Secret => &self.secrets,
        }
    }
}
