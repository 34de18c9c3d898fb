//! Karmada's names.

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

/// Fields of a policy's spec that its bindings have too.
pub const CARRIED: [&str; 4] = [
    "placement",
    "propagateDeps",
    "schedulerName",
    "conflictResolution",
];

/// Name of the binding of a template.
pub fn binding(kind: &str, name: &str) -> String {
    format!("{}-{kind}", name.replace(':', ".")).to_lowercase()
}

/// True for namespaces whose objects are never propagated.
pub fn is_reserved(namespace: &str) -> bool {
    namespace == "karmada-system"
        || namespace == "karmada-cluster"
        || namespace.starts_with("karmada-es-")
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
