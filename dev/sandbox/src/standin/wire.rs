//! Karmada's keys, names and kinds, as in its release of August 2026.

use super::{refs::Kind, world::StepError};
use fedgate_api::names::short_hash;
use fedgate_karmada::names;
use kube::{api::DynamicObject, core::TypeMeta};
use serde_json::Value;

/// Annotation of a binding: the dependencies of its template, as JSON.
pub(super) const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
/// Prefix of the labels which record that a binding needs an attached binding.
pub(super) const DEPENDED_BY: &str = "resourcebinding.karmada.io/depended-by-";
/// Annotation of a binding: the placement that was scheduled, as JSON.
pub(super) const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

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

/// The state that a member must have.
pub(super) fn work() -> Kind {
    Kind::new("work.karmada.io/v1alpha1", "Work")
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

/// An object as JSON.
pub(super) fn as_value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// An object from JSON.
pub(super) fn read(object: Value) -> Result<DynamicObject, StepError> {
    serde_json::from_value(object).map_err(|error| StepError::Refused(format!("no object: {error}")))
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
    let safe = names::safe_hash(&format!("{namespace}/{name}"));
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
