//! The kinds that the demonstration follows.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};

/// Where objects of a kind are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// In the demonstration's namespace of that plane.
    Namespace,
    /// Cluster-scoped, or in every namespace.
    Everywhere,
}

/// One kind of object.
#[derive(Debug, PartialEq, Eq)]
// The field is Kubernetes' own word for it.
#[allow(clippy::struct_field_names)]
pub(super) struct Kind {
    group: &'static str,
    version: &'static str,
    pub(super) kind: &'static str,
    plural: &'static str,
    pub(super) reach: Reach,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    reach: Reach,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        reach,
    }
}

const COMPUTE: &str = "compute.datumapis.com";
const POLICIES: &str = "policy.karmada.io";
const WORKS: &str = "work.karmada.io";

pub(super) const NAMESPACE: Kind = kind("", "v1", "Namespace", "namespaces", Reach::Everywhere);
pub(super) const CONFIG_MAP: Kind = kind("", "v1", "ConfigMap", "configmaps", Reach::Namespace);
pub(super) const SECRET: Kind = kind("", "v1", "Secret", "secrets", Reach::Namespace);
pub(super) const POD: Kind = kind("", "v1", "Pod", "pods", Reach::Namespace);
pub(super) const WORKLOAD: Kind = kind(COMPUTE, "v1alpha", "Workload", "workloads", Reach::Namespace);
pub(super) const DEPLOYMENT: Kind = kind(
    COMPUTE,
    "v1alpha",
    "WorkloadDeployment",
    "workloaddeployments",
    Reach::Namespace,
);
pub(super) const INSTANCE: Kind = kind(COMPUTE, "v1alpha", "Instance", "instances", Reach::Namespace);
pub(super) const POLICY: Kind = kind(
    POLICIES,
    "v1alpha1",
    "PropagationPolicy",
    "propagationpolicies",
    Reach::Namespace,
);
pub(super) const CLUSTER_POLICY: Kind = kind(
    POLICIES,
    "v1alpha1",
    "ClusterPropagationPolicy",
    "clusterpropagationpolicies",
    Reach::Everywhere,
);
pub(super) const BINDING: Kind = kind(
    WORKS,
    "v1alpha2",
    "ResourceBinding",
    "resourcebindings",
    Reach::Namespace,
);
pub(super) const CLUSTER_BINDING: Kind = kind(
    WORKS,
    "v1alpha2",
    "ClusterResourceBinding",
    "clusterresourcebindings",
    Reach::Everywhere,
);
pub(super) const INTERPRETER: Kind = kind(
    "config.karmada.io",
    "v1alpha1",
    "ResourceInterpreterCustomization",
    "resourceinterpretercustomizations",
    Reach::Everywhere,
);

impl Kind {
    /// The kind as the client library wants it.
    pub(super) fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    /// Objects of the kind in `namespace`, or everywhere for kinds that are followed everywhere.
    pub(super) fn api(&self, client: Client, namespace: &str) -> Api<DynamicObject> {
        match self.reach {
            Reach::Namespace => Api::namespaced_with(client, namespace, &self.resource()),
            Reach::Everywhere => Api::all_with(client, &self.resource()),
        }
    }
}
