//! References to objects.

use fedgate_karmada::{Object, names};
use serde_json::Value;
use std::fmt;

/// Group, version and kind, e.g. `apps/v1/Deployment`.
pub(super) type Kind = String;

pub(super) const POLICY: &str = "policy.karmada.io/v1alpha1/PropagationPolicy";
pub(super) const CLUSTER_POLICY: &str = "policy.karmada.io/v1alpha1/ClusterPropagationPolicy";
pub(super) const BINDING: &str = "work.karmada.io/v1alpha2/ResourceBinding";
pub(super) const CLUSTER_BINDING: &str = "work.karmada.io/v1alpha2/ClusterResourceBinding";
pub(super) const WORK: &str = "work.karmada.io/v1alpha1/Work";
pub(super) const INTERPRETER: &str = "config.karmada.io/v1alpha1/ResourceInterpreterCustomization";
pub(super) const CLUSTER: &str = "cluster.karmada.io/v1alpha1/Cluster";
pub(super) const NAMESPACE: &str = "v1/Namespace";

/// The kinds that control the delivery; objects of all others are delivered.
pub(super) const KARMADA: [&str; 7] = [
    POLICY,
    CLUSTER_POLICY,
    BINDING,
    CLUSTER_BINDING,
    WORK,
    INTERPRETER,
    CLUSTER,
];

/// The kind in `apiVersion` and `kind` of an object, selector, target or reference.
pub(super) fn kind_of(value: &Value) -> Kind {
    format!("{}/{}", value.api_version(), value.kind())
}

/// An object of any kind; an empty namespace means cluster-scoped. It is the key of the work queue, too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectRef {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its namespace.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
}

impl ObjectRef {
    /// The object of this kind, namespace and name.
    pub(super) fn new(kind: &str, namespace: &str, name: &str) -> Self {
        let (kind, namespace, name) = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        Self {
            kind,
            namespace,
            name,
        }
    }

    /// The object itself.
    pub(super) fn of(object: &Value) -> Self {
        Self::new(&kind_of(object), object.namespace(), object.name())
    }

    /// The object that a binding's `spec.resource` or a dependency refers to.
    pub(super) fn read(reference: &Value) -> Self {
        let text = |key: &str| reference[key].as_str().unwrap_or_default();
        Self::new(&kind_of(reference), text("namespace"), text("name"))
    }

    /// The binding of this name.
    pub(super) fn to_binding(namespace: &str, name: &str) -> Self {
        let kind = if namespace.is_empty() {
            CLUSTER_BINDING
        } else {
            BINDING
        };
        Self::new(kind, namespace, name)
    }

    /// The binding of this template.
    pub(super) fn binding(&self) -> Self {
        Self::to_binding(&self.namespace, &names::binding(self.short_kind(), &self.name))
    }

    /// The Work of this object at a member.
    pub(super) fn work(&self, member: &str) -> Self {
        let name = names::work(self.short_kind(), &self.namespace, &self.name);
        Self::new(WORK, &names::work_namespace(member), &name)
    }

    fn short_kind(&self) -> &str {
        self.kind.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.short_kind(), self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_read_from_what_bindings_say() {
        let object = ObjectRef::read(
            &json!({"apiVersion": "v1", "kind": "Secret", "namespace": "ns-1", "name": "db"}),
        );
        assert_eq!(object.to_string(), "Secret ns-1/db");
        assert_eq!(object.binding(), ObjectRef::new(BINDING, "ns-1", "db-secret"));
        assert_eq!(object.work("dfw-1").namespace, "karmada-es-dfw-1");
    }
}
