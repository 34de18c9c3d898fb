//! The kinds that commands read, on every plane.

use fedgate_api::{GROUP, VERSION};
use kube::api::ApiResource;

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// Workloads.
    Workloads,
    /// The Workload's deployments, one for each placement and city.
    Deployments,
    /// Instances.
    Instances,
    /// Namespaces.
    Namespaces,
    /// ConfigMaps.
    ConfigMaps,
    /// Events.
    Events,
    /// The places that have cells.
    Locations,
    /// Milo's quota of a project.
    Buckets,
    /// Milo's services that a project may use.
    Entitlements,
    /// Karmada's bindings of templates to clusters.
    Bindings,
    /// Karmada's policies of a namespace.
    Policies,
    /// Karmada's policies of all namespaces.
    ClusterPolicies,
    /// Karmada's members.
    Clusters,
}

/// The objects of a kind that are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All of the namespace.
    All,
    /// The one with this name.
    Named(String),
    /// Those with these labels.
    Labelled(&'static str),
}

impl Resource {
    /// Group, version, kind and plural.
    const fn names(self) -> [&'static str; 4] {
        match self {
            Self::Workloads => [GROUP, VERSION, "Workload", "workloads"],
            Self::Deployments => [GROUP, VERSION, "WorkloadDeployment", "workloaddeployments"],
            Self::Instances => [GROUP, VERSION, "Instance", "instances"],
            Self::Namespaces => ["", "v1", "Namespace", "namespaces"],
            Self::ConfigMaps => ["", "v1", "ConfigMap", "configmaps"],
            Self::Events => ["events.k8s.io", "v1", "Event", "events"],
            Self::Locations => ["networking.datumapis.com", VERSION, "Location", "locations"],
            Self::Buckets => [
                "quota.miloapis.com",
                "v1alpha1",
                "AllowanceBucket",
                "allowancebuckets",
            ],
            Self::Entitlements => [
                "services.miloapis.com",
                "v1alpha1",
                "ServiceEntitlement",
                "serviceentitlements",
            ],
            Self::Bindings => [
                "work.karmada.io",
                "v1alpha2",
                "ResourceBinding",
                "resourcebindings",
            ],
            Self::Policies => [
                "policy.karmada.io",
                "v1alpha1",
                "PropagationPolicy",
                "propagationpolicies",
            ],
            Self::ClusterPolicies => [
                "policy.karmada.io",
                "v1alpha1",
                "ClusterPropagationPolicy",
                "clusterpropagationpolicies",
            ],
            Self::Clusters => ["cluster.karmada.io", "v1alpha1", "Cluster", "clusters"],
        }
    }

    /// False for a kind of the whole cluster.
    pub(super) const fn is_namespaced(self) -> bool {
        match self {
            Self::Workloads
            | Self::Deployments
            | Self::Instances
            | Self::ConfigMaps
            | Self::Events
            | Self::Buckets
            | Self::Locations
            | Self::Bindings
            | Self::Policies => true,
            Self::Namespaces | Self::Entitlements | Self::ClusterPolicies | Self::Clusters => false,
        }
    }

    /// The kind as requests need it.
    pub(super) fn api(self) -> ApiResource {
        let [group, version, kind, plural] = self.names();
        let slash = if group.is_empty() { "" } else { "/" };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}{slash}{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}
