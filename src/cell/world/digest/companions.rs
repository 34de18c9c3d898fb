//! Namespaces, and where the cell is.

use super::{Words, label};
use crate::api::keys;
use kube::core::DynamicObject;
use std::sync::Arc;

/// A Namespace at the cell or on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The project's label, `cluster-<project>`.
    pub cluster: Option<Arc<str>>,
    /// The namespace in the project.
    pub namespace: Option<Arc<str>>,
    /// The profile of the Pod Security Standards that it enforces.
    pub enforced: Option<Arc<str>>,
}

/// Reads a Namespace.
pub fn namespace(object: &DynamicObject, words: &mut Words) -> Namespace {
    Namespace {
        cluster: label(object, keys::UPSTREAM_CLUSTER, words),
        namespace: label(object, keys::UPSTREAM_NAMESPACE, words),
        enforced: label(object, keys::POD_SECURITY, words),
    }
}

/// A `ServingLocation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its city code.
    pub city: Option<Arc<str>>,
}

/// Reads a `ServingLocation`.
pub fn place(object: &DynamicObject, words: &mut Words) -> Place {
    let city = object.data["spec"]["topology"][keys::CITY_CODE].as_str();
    Place {
        city: city.map(|city| words.share(city)),
    }
}
