//! Karmada's keys, names and kinds, as in its release of August 2026.

use super::refs::Kind;
use fedgate_api::names::short_hash;
use kube::{api::DynamicObject, core::TypeMeta};

/// Finalizer of a binding whose template's dependencies are synced with it.
pub(super) const DEPENDENCIES_FINALIZER: &str = "karmada.io/binding-dependencies-distributor";

/// Annotation at members: the binding's namespace.
pub(super) const BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Annotation at members: the binding's name.
pub(super) const BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Annotation at members: the cluster binding's name.
pub(super) const CLUSTER_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// Annotation of a binding: the dependencies of its template, as JSON.
pub(super) const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
/// Prefix of the labels which record that a binding needs an attached binding.
pub(super) const DEPENDED_BY: &str = "resourcebinding.karmada.io/depended-by-";
/// Annotation of a binding: the placement that was scheduled, as JSON.
pub(super) const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// Label at members: the objects that Karmada manages.
pub(super) const MANAGED: &str = "karmada.io/managed";
/// Annotation at members: UID of the template.
pub(super) const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Annotation at members: generation of the template.
pub(super) const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// Annotation at members: the labels that the hub set.
pub(super) const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// Annotation at members: the annotations that the hub set.
pub(super) const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// Label at members: permanent ID of the Work.
pub(super) const WORK_ID: &str = "work.karmada.io/permanent-id";
/// Annotation at members: name of the Work.
pub(super) const WORK_NAME: &str = "work.karmada.io/name";
/// Annotation at members: namespace of the Work.
pub(super) const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
/// Annotation: how to handle an object that exists at the member already.
pub(super) const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";

/// A namespaced policy.
pub(super) fn policy() -> Kind {
    Kind::new("policy.karmada.io/v1alpha1", "PropagationPolicy")
}

/// A cluster-scoped policy.
pub(super) fn cluster_policy() -> Kind {
    Kind::new("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy")
}

/// A namespaced binding.
pub(super) fn binding() -> Kind {
    Kind::new("work.karmada.io/v1alpha2", "ResourceBinding")
}

/// A cluster-scoped binding.
pub(super) fn cluster_binding() -> Kind {
    Kind::new("work.karmada.io/v1alpha2", "ClusterResourceBinding")
}

/// The scripts of a kind.
pub(super) fn interpreter() -> Kind {
    Kind::new("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization")
}

/// A member.
pub(super) fn cluster() -> Kind {
    Kind::new("cluster.karmada.io/v1alpha1", "Cluster")
}

/// A Namespace.
pub(super) fn namespace() -> Kind {
    Kind::new("v1", "Namespace")
}

/// `apiVersion` and `kind` for an object of `kind`.
pub(super) fn types(kind: &Kind) -> TypeMeta {
    TypeMeta {
        api_version: kind.api_version.to_string(),
        kind: kind.kind.to_string(),
    }
}

/// Name that Karmada would give the Work; no code looks a Work up by it.
pub(super) fn work_name(kind: &str, namespace: &str, name: &str) -> String {
    format!(
        "{}-{}",
        name.replace(':', "."),
        short_hash(&format!("{namespace}/{kind}/{name}"), 8)
    )
    .to_lowercase()
}

/// Namespace of a member's Works.
pub(super) fn work_namespace(member: &str) -> String {
    format!("karmada-es-{member}")
}

/// A permanent ID in the form of a UUID. Karmada's is random; here it is a hash of `seed`, so that a retried write has
/// the same content.
pub(super) fn permanent_id(seed: &str) -> String {
    let hex = short_hash(seed, 32);
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    )
}

/// The label on an attached binding which records that binding `namespace/name` needs it.
pub(super) fn depended_by(namespace: &str, name: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    // FNV-1a, in an alphabet that forms no words.
    let text = format!("{namespace}/{name}");
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let safe = hash
        .to_string()
        .bytes()
        .map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()]))
        .collect::<String>();
    format!("{DEPENDED_BY}{safe}")
}

/// A label of an object; empty if it has none.
pub(super) fn label<'a>(object: &'a DynamicObject, key: &str) -> &'a str {
    object
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(key))
        .map_or("", String::as_str)
}

/// An annotation of an object; empty if it has none.
pub(super) fn annotation<'a>(object: &'a DynamicObject, key: &str) -> &'a str {
    object
        .metadata
        .annotations
        .as_ref()
        .and_then(|map| map.get(key))
        .map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_karmada() {
        assert!(work_name("Secret", "ns-1", "web").starts_with("web-"));
        let id = permanent_id("x");
        assert_eq!(id.len(), 36);
        assert_eq!(id, permanent_id("x"));
        let key = depended_by(
            "ns-6d1f0c52-0000-4000-8000-00000000a001",
            "web-workloaddeployment",
        );
        assert_eq!(key, "resourcebinding.karmada.io/depended-by-5447b96cf4");
    }
}
