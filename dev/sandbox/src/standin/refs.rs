//! Keys of the work queue and references to objects.

use super::wire;
use fedgate_karmada::{claim::PolicyName, names};
use kube::api::DynamicObject;
use serde_json::Value;
use std::{fmt, sync::Arc};

/// A kind, as objects refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kind {
    /// Group and version, e.g. `apps/v1`.
    pub(super) api_version: Arc<str>,
    /// Kind, e.g. `Deployment`.
    pub(super) kind: Arc<str>,
}

impl Kind {
    /// The kind of this group, version and name.
    pub(super) fn new(api_version: &str, kind: &str) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    /// Reads `apiVersion` and `kind` of a selector, target or reference.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let text = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        Some(Self::new(text("apiVersion")?, text("kind")?))
    }

    /// The kind with group and version split.
    pub(super) fn gvk(&self) -> kube::core::GroupVersionKind {
        let (group, version) = self
            .api_version
            .split_once('/')
            .unwrap_or(("", &self.api_version));
        kube::core::GroupVersionKind::gvk(group, version, &self.kind)
    }
}

/// An API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Plane {
    /// The hub.
    Hub,
    /// The member of this name.
    Member(Arc<str>),
}

/// An object of any kind; an empty namespace means cluster-scoped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ObjectRef {
    /// Its kind.
    pub(super) kind: Kind,
    /// Its namespace.
    pub(super) namespace: Arc<str>,
    /// Its name.
    pub(super) name: Arc<str>,
}

impl ObjectRef {
    /// The object that a binding's `spec.resource` or a dependency refers to.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = Some(text("name")).filter(|name| !name.is_empty())?;
        Some(Self {
            kind: Kind::of(value)?,
            namespace: text("namespace").into(),
            name: name.into(),
        })
    }

    /// The object itself, as JSON.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let name = Some(text("name")).filter(|name| !name.is_empty())?;
        Some(Self {
            kind: Kind::of(object)?,
            namespace: text("namespace").into(),
            name: name.into(),
        })
    }

    /// Reference to an object of a known kind.
    pub(super) fn to(kind: &Kind, object: &DynamicObject) -> Self {
        let text = |value: &Option<String>| value.as_deref().unwrap_or_default().into();
        let meta = &object.metadata;
        Self {
            kind: kind.clone(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
        }
    }

    /// The binding of this template.
    pub(super) fn binding(&self) -> NamespacedName {
        let name = names::binding(&self.kind.kind, &self.name);
        NamespacedName {
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
    }
}

/// A binding or policy; an empty namespace means the cluster-scoped kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NamespacedName {
    /// Its namespace.
    pub(super) namespace: Arc<str>,
    /// Its name.
    pub(super) name: Arc<str>,
}

impl NamespacedName {
    /// The policy that an object names.
    pub(super) fn of(policy: PolicyName<'_>) -> Self {
        Self {
            namespace: policy.namespace.into(),
            name: policy.name.into(),
        }
    }

    /// Reference to an object.
    pub(super) fn to(object: &DynamicObject) -> Self {
        let text = |value: &Option<String>| value.as_deref().unwrap_or_default().into();
        Self {
            namespace: text(&object.metadata.namespace),
            name: text(&object.metadata.name),
        }
    }

    /// Reads `namespace` and `name` of a value.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = Some(text("name")).filter(|name| !name.is_empty())?;
        Some(Self {
            namespace: text("namespace").into(),
            name: name.into(),
        })
    }

    /// The binding kind: namespaced or cluster-scoped.
    pub(super) fn binding_kind(&self) -> Kind {
        if self.namespace.is_empty() {
            wire::cluster_binding()
        } else {
            wire::binding()
        }
    }

    /// The policy kind: namespaced or cluster-scoped.
    pub(super) fn policy_kind(&self) -> Kind {
        if self.namespace.is_empty() {
            wire::cluster_policy()
        } else {
            wire::policy()
        }
    }
}

/// A key of the work queue. Each reconcile decides again from the watch caches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Defaults, unmatched claims and the deletion of a policy.
    Policy(NamespacedName),
    /// Claim and binding of a hub object.
    Template(ObjectRef),
    /// Placement, dependencies and Works of a binding.
    Binding(NamespacedName),
    /// The state of one object that a member must have.
    Work(NamespacedName),
    /// The status of a binding and of its template.
    Report(NamespacedName),
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
        let object = object.unwrap();
        assert_eq!(object.to_string(), "Secret ns-1/db");
        assert_eq!(&*object.binding().name, "db-secret");
        assert_eq!(object.binding().binding_kind(), wire::binding());
        assert!(ObjectRef::read(&json!({"apiVersion": "v1", "kind": "Secret"})).is_none());
        assert_eq!(Kind::new("apps/v1", "Deployment").gvk().group, "apps");
    }
}
