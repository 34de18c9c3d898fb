//! Karmada's names.

pub use fedgate_api::karmada::{member_of, safe_hash, work, work_namespace};

/// Label that excludes a template from all policies.
pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
/// Finalizer of a `ResourceBinding`.
pub const BINDING_FINALIZER: &str = "karmada.io/binding-controller";
/// Finalizer of a `ClusterResourceBinding`.
pub const CLUSTER_BINDING_FINALIZER: &str = "karmada.io/cluster-resource-binding-controller";
/// Label: permanent ID of a `ResourceBinding`, also on the objects that it delivers.
pub const BINDING_ID: &str = "resourcebinding.karmada.io/permanent-id";
/// Label: permanent ID of a `ClusterResourceBinding`, also on the objects that it delivers.
pub const CLUSTER_BINDING_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";

/// Label at members: the objects that Karmada manages.
pub const MANAGED: &str = "karmada.io/managed";
/// Annotation at members and of Works: the binding's namespace.
pub const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Annotation at members and of Works: the binding's name.
pub const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Annotation at members and of Works: the cluster binding's name.
pub const CLUSTER_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// Annotation at members: UID of the template.
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Annotation at members: generation of the template.
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// Annotation at members: the labels that the hub set.
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// Annotation at members: the annotations that the hub set.
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// Label of a Work and at members: permanent ID of the Work.
pub const WORK_ID: &str = "work.karmada.io/permanent-id";
/// Annotation at members: name of the Work.
pub const WORK_NAME: &str = "work.karmada.io/name";
/// Annotation at members: namespace of the Work.
pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
/// Annotation: how to handle an object that exists at the member already.
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
/// Finalizer of a Work.
pub const WORK_FINALIZER: &str = "karmada.io/execution-controller";

/// Fields of a policy's spec that its bindings have too.
pub const CARRIED: [&str; 7] = [
    "placement",
    "propagateDeps",
    "schedulerName",
    "conflictResolution",
    "preserveResourcesOnDeletion",
    "failover",
    "suspension",
];

/// Name of the binding of a template.
pub fn binding(kind: &str, name: &str) -> String {
    format!("{}-{kind}", name.replace(':', ".")).to_lowercase()
}

/// True for namespaces whose objects are never propagated.
pub fn is_reserved(namespace: &str) -> bool {
    namespace == "karmada-system"
        || namespace == "karmada-cluster"
        || member_of(namespace).is_some()
        || namespace.starts_with("kube-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_named_after_its_template() {
        assert_eq!(
            binding("WorkloadDeployment", "web-us-dfw"),
            "web-us-dfw-workloaddeployment"
        );
        assert_eq!(binding("ClusterRole", "system:x"), "system.x-clusterrole");
    }

    #[test]
    fn reserved_namespaces_are_left_alone() {
        for name in ["kube-system", "karmada-es-dfw-1", "karmada-system"] {
            assert!(is_reserved(name), "{name}");
        }
        assert!(!is_reserved("ns-1") && !is_reserved("default"));
    }
}
