//! The kinds that the suite reads and writes, as dynamic resources.

use kube::core::{ApiResource, GroupVersionKind};

/// One kind of object on some plane.
#[derive(Debug)]
pub(crate) struct Kind {
    group: &'static str,
    version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
}

pub(crate) const fn kind(
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Kind {
    Kind {
        group,
        version,
        name,
        plural,
        namespaced,
    }
}

impl Kind {
    pub(crate) fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.name);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const COMPUTE: &str = "compute.datumapis.com";

pub(crate) const DEFINITION: Kind = kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    false,
);
pub(crate) const NAMESPACE: Kind = kind("", "v1", "Namespace", "namespaces", false);
pub(crate) const CONFIG_MAP: Kind = kind("", "v1", "ConfigMap", "configmaps", true);
pub(crate) const SECRET: Kind = kind("", "v1", "Secret", "secrets", true);
pub(crate) const SERVICE_ACCOUNT: Kind = kind("", "v1", "ServiceAccount", "serviceaccounts", true);
pub(crate) const EVENT: Kind = kind("events.k8s.io", "v1", "Event", "events", true);
pub(crate) const CLUSTER_ROLE: Kind = kind(RBAC, "v1", "ClusterRole", "clusterroles", false);
pub(crate) const ACCESS_REVIEW: Kind = kind(
    "authorization.k8s.io",
    "v1",
    "SubjectAccessReview",
    "subjectaccessreviews",
    false,
);
pub(crate) const CLUSTER_ROLE_BINDING: Kind =
    kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", false);
pub(crate) const ROLE_BINDING: Kind = kind(RBAC, "v1", "RoleBinding", "rolebindings", true);
pub(crate) const WORKLOAD: Kind = kind(COMPUTE, "v1alpha", "Workload", "workloads", true);
pub(crate) const DEPLOYMENT: Kind = kind(
    COMPUTE,
    "v1alpha",
    "WorkloadDeployment",
    "workloaddeployments",
    true,
);
pub(crate) const INSTANCE: Kind = kind(COMPUTE, "v1alpha", "Instance", "instances", true);
pub(crate) const BEACON: Kind = kind("example.fedgate.dev", "v1", "Beacon", "beacons", true);
pub(crate) const GADGET: Kind = kind("example.fedgate.dev", "v1", "Gadget", "gadgets", true);
pub(crate) const SEAL: Kind = kind("example.fedgate.dev", "v1", "Seal", "seals", true);
pub(crate) const CHARTER: Kind = kind("example.fedgate.dev", "v1", "Charter", "charters", true);
pub(crate) const VAULT: Kind = kind("example.fedgate.dev", "v1", "Vault", "vaults", true);
pub(crate) const FLAVOR: Kind = kind("example.fedgate.dev", "v1", "Flavor", "flavors", false);
const AZIMUTH: &str = "azimuth.stackhpc.com";
pub(crate) const AZIMUTH_CLUSTER: Kind = kind(AZIMUTH, "v1alpha1", "Cluster", "clusters", true);
pub(crate) const CLUSTER_TEMPLATE: Kind =
    kind(AZIMUTH, "v1alpha1", "ClusterTemplate", "clustertemplates", false);
pub(crate) const AZIMUTH_LEASE: Kind = kind(
    "scheduling.azimuth.stackhpc.com",
    "v1alpha1",
    "Lease",
    "leases",
    true,
);
pub(crate) const REALM: Kind = kind(
    "identity.azimuth.stackhpc.com",
    "v1alpha1",
    "Realm",
    "realms",
    true,
);
pub(crate) const POSTGRES: Kind = kind("postgresql.cnpg.io", "v1", "Cluster", "clusters", true);
pub(crate) const POLICY: Kind = kind(
    "policy.karmada.io",
    "v1alpha1",
    "PropagationPolicy",
    "propagationpolicies",
    true,
);
pub(crate) const CLUSTER_POLICY: Kind = kind(
    "policy.karmada.io",
    "v1alpha1",
    "ClusterPropagationPolicy",
    "clusterpropagationpolicies",
    false,
);
pub(crate) const BINDING: Kind = kind(
    "work.karmada.io",
    "v1alpha2",
    "ResourceBinding",
    "resourcebindings",
    true,
);
pub(crate) const CLUSTER_BINDING: Kind = kind(
    "work.karmada.io",
    "v1alpha2",
    "ClusterResourceBinding",
    "clusterresourcebindings",
    false,
);
pub(crate) const WORK: Kind = kind("work.karmada.io", "v1alpha1", "Work", "works", true);
pub(crate) const CLUSTER: Kind = kind("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", false);
pub(crate) const LEASE: Kind = kind("coordination.k8s.io", "v1", "Lease", "leases", true);
pub(crate) const INTERPRETER: Kind = kind(
    "config.karmada.io",
    "v1alpha1",
    "ResourceInterpreterCustomization",
    "resourceinterpretercustomizations",
    false,
);
pub(crate) const ADMISSION_BINDING: Kind = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    false,
);
pub(crate) const WEBHOOK: Kind = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    false,
);
pub(crate) const ADMISSION_POLICY: Kind = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    false,
);
