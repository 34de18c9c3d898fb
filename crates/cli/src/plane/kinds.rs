//! The kinds that commands read and write.

use crate::view::Object;
use fedgate_api::{GROUP, VERSION};
use kube::{
    Resource as _,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::Value;

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
    /// The places of a project, of the network services in their later form.
    LocationBindings,
    /// The places of a project, of the network services in their first form.
    NetworkLocations,
    /// Milo's quota of a project.
    Buckets,
    /// Milo's services that a project may use.
    Entitlements,
}

const NETWORKING: &str = "networking.datumapis.com";
const SERVICES: &str = "services.miloapis.com";

impl Resource {
    /// The kinds that tell the locations of a project. The first that is served counts, as for the gateway (contract:
    /// locations.md §2.1).
    pub(super) const OF_LOCATIONS: [Self; 3] =
        [Self::Locations, Self::LocationBindings, Self::NetworkLocations];

    /// Group, version, kind, and the noun for people.
    const fn names(self) -> [&'static str; 4] {
        match self {
            Self::Workloads => [GROUP, VERSION, "Workload", "workload"],
            Self::Deployments => [GROUP, VERSION, "WorkloadDeployment", "deployment"],
            Self::Instances => [GROUP, VERSION, "Instance", "instance"],
            Self::Namespaces => ["", "v1", "Namespace", "namespace"],
            Self::ConfigMaps => ["", "v1", "ConfigMap", "configmap"],
            Self::Events => ["events.k8s.io", "v1", "Event", "event"],
            Self::Locations => ["locations.miloapis.com", "v1alpha1", "Location", "location"],
            Self::LocationBindings => [NETWORKING, VERSION, "LocationBinding", "location"],
            Self::NetworkLocations => [NETWORKING, VERSION, "Location", "location"],
            Self::Buckets => [
                "quota.miloapis.com",
                "v1alpha1",
                "AllowanceBucket",
                "quota bucket",
            ],
            Self::Entitlements => [SERVICES, "v1alpha1", "ServiceEntitlement", "request for compute"],
        }
    }

    /// The noun for people.
    pub(super) const fn noun(self) -> &'static str {
        self.names()[3]
    }

    /// The plural, as in paths.
    pub(super) fn plural(self) -> String {
        self.api().plural
    }

    /// True if a server means this kind, by its plural or its kind; servers that name none mean it too.
    pub(super) fn is_called(self, name: &str) -> bool {
        let ApiResource { kind, plural, .. } = self.api();
        name.is_empty() || name == plural || name == kind
    }

    /// False for a kind of the whole cluster.
    pub(super) const fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Namespaces | Self::Locations | Self::LocationBindings | Self::Entitlements
        )
    }

    /// The path of requests about a namespace, or about all. Kinds of the whole cluster are in no namespace.
    pub(super) fn path(self, namespace: Option<&str>) -> String {
        DynamicObject::url_path(&self.api(), namespace.filter(|_| self.is_namespaced()))
    }

    /// An object with its types, which items of a list lack.
    pub(super) fn typed(self, mut object: Value) -> Object {
        let resource = self.api();
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), resource.api_version.into());
            fields.insert("kind".to_owned(), resource.kind.into());
        }
        Object(object)
    }

    /// The kind as requests need it.
    pub(super) fn api(self) -> ApiResource {
        let [group, version, kind, _] = self.names();
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
    }
}
