//! Small shapes that several kinds share (contract: api.md §1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Metadata inside a template. A schema of its own, since a bare `type: object` would prune the labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddedMeta {
    /// Accepted and ignored: Instances are named by their deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Accepted and ignored: Instances live in their deployment's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels that Instances get; labels of the controller win over them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that Instances get.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Accepted and ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
}

impl EmbeddedMeta {
    /// Whether nothing is said, so that the field can be left out.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Names a Location. Always written with a namespace, because peers' schemas require one; read with or without.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocationReference {
    /// Name of the Location.
    pub name: String,
    /// Namespace of the Location; `default` for a cluster-scoped one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Names a location where it is known to be cluster-scoped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedLocation {
    /// Name of the location.
    pub name: String,
}

/// Names one object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameReference {
    /// Name of the object.
    pub name: String,
}
