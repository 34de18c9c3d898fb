//! The kinds that commands read, on every plane.

use fedgate_api::{GROUP, VERSION};
use kube::{
    Resource as _,
    api::{ApiResource, DynamicObject},
};

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
    /// The places that a project may use, of Milo's locations service.
    Locations,
    /// The same of the network services, in their later form.
    LocationBindings,
    /// The same of the network services, in their first form.
    NetworkLocations,
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

/// The objects of a kind that a request is about. Kinds of the whole cluster are in no namespace, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    /// Those of all namespaces.
    All,
    /// Those of a namespace.
    Namespace(&'a str),
}

const NETWORKING: &str = "networking.datumapis.com";

impl Resource {
    /// The kinds that tell the locations of a project. The first that is served counts, as for the gateway (contract:
    /// locations.md §2.1).
    pub(super) const OF_LOCATIONS: [Self; 3] =
        [Self::Locations, Self::LocationBindings, Self::NetworkLocations];

    /// Group, version, kind and plural.
    const fn names(self) -> [&'static str; 4] {
        match self {
            Self::Workloads => [GROUP, VERSION, "Workload", "workloads"],
            Self::Deployments => [GROUP, VERSION, "WorkloadDeployment", "workloaddeployments"],
            Self::Instances => [GROUP, VERSION, "Instance", "instances"],
            Self::Namespaces => ["", "v1", "Namespace", "namespaces"],
            Self::ConfigMaps => ["", "v1", "ConfigMap", "configmaps"],
            Self::Events => ["events.k8s.io", "v1", "Event", "events"],
            Self::Locations => ["locations.miloapis.com", "v1alpha1", "Location", "locations"],
            Self::LocationBindings => [NETWORKING, VERSION, "LocationBinding", "locationbindings"],
            Self::NetworkLocations => [NETWORKING, VERSION, "Location", "locations"],
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

    /// The noun for people.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Workloads => "workload",
            Self::Deployments => "deployment",
            Self::Instances => "instance",
            Self::Namespaces => "namespace",
            Self::ConfigMaps => "configmap",
            Self::Events => "event",
            Self::Locations | Self::LocationBindings | Self::NetworkLocations => "location",
            Self::Buckets => "quota bucket",
            Self::Entitlements => "request for compute",
            Self::Bindings => "binding",
            Self::Policies | Self::ClusterPolicies => "policy",
            Self::Clusters => "cluster",
        }
    }

    /// The plural, as in paths.
    pub(super) const fn plural(self) -> &'static str {
        self.names()[3]
    }

    /// True if a server means this kind, by its plural or its kind; servers that name none mean it too.
    pub(super) fn is_called(self, name: &str) -> bool {
        let [_, _, kind, plural] = self.names();
        name.is_empty() || name == plural || name == kind
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
            | Self::NetworkLocations
            | Self::Bindings
            | Self::Policies => true,
            Self::Namespaces
            | Self::Locations
            | Self::LocationBindings
            | Self::Entitlements
            | Self::ClusterPolicies
            | Self::Clusters => false,
        }
    }

    /// The path of the kind's requests.
    pub(super) fn path(self, scope: Scope<'_>) -> String {
        let namespace = match scope {
            Scope::Namespace(name) if self.is_namespaced() => Some(name),
            Scope::Namespace(_) | Scope::All => None,
        };
        DynamicObject::url_path(&self.api(), namespace)
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
