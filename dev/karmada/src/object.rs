//! The fields of an object that Karmada's decisions read.

use serde_json::Value;
use std::sync::Arc;

/// An object of any kind. Texts are empty where the object has none.
pub trait Object {
    /// Group and version.
    fn api_version(&self) -> &str;
    /// Kind.
    fn kind(&self) -> &str;
    /// Namespace; empty if the object is cluster-scoped.
    fn namespace(&self) -> &str;
    /// Name.
    fn name(&self) -> &str;
    /// A label; `None` if the object does not have it.
    fn label(&self, key: &str) -> Option<&str>;
    /// An annotation; `None` if the object does not have it.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// True if the object is being deleted.
    fn is_deleting(&self) -> bool;
    /// A field at the root beside the metadata, e.g. `spec`; null if the object does not have it.
    fn field(&self, name: &str) -> &Value;
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Object for Value {
    fn api_version(&self) -> &str {
        text(&self["apiVersion"])
    }

    fn kind(&self) -> &str {
        text(&self["kind"])
    }

    fn namespace(&self) -> &str {
        text(&self["metadata"]["namespace"])
    }

    fn name(&self) -> &str {
        text(&self["metadata"]["name"])
    }

    fn label(&self, key: &str) -> Option<&str> {
        self["metadata"]["labels"][key].as_str()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self["metadata"]["annotations"][key].as_str()
    }

    fn is_deleting(&self) -> bool {
        !self["metadata"]["deletionTimestamp"].is_null()
    }

    fn field(&self, name: &str) -> &Value {
        &self[name]
    }
}

#[cfg(any(test, feature = "kube"))]
impl Object for kube::core::DynamicObject {
    fn api_version(&self) -> &str {
        self.types.as_ref().map_or("", |types| &types.api_version)
    }

    fn kind(&self) -> &str {
        self.types.as_ref().map_or("", |types| &types.kind)
    }

    fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    fn field(&self, name: &str) -> &Value {
        &self.data[name]
    }
}

impl<T: Object> Object for Arc<T> {
    fn api_version(&self) -> &str {
        T::api_version(self)
    }

    fn kind(&self) -> &str {
        T::kind(self)
    }

    fn namespace(&self) -> &str {
        T::namespace(self)
    }

    fn name(&self) -> &str {
        T::name(self)
    }

    fn label(&self, key: &str) -> Option<&str> {
        T::label(self, key)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        T::annotation(self, key)
    }

    fn is_deleting(&self) -> bool {
        T::is_deleting(self)
    }

    fn field(&self, name: &str) -> &Value {
        T::field(self, name)
    }
}
