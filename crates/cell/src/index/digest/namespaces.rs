//! Digests of Namespaces, `ServingLocations` and release records.

use super::{Strings, label};
use fedgate_api::keys;
use kube::core::DynamicObject;
use std::{collections::BTreeMap, sync::Arc};

/// A Namespace of the cell or of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Label with the project, `cluster-<project>`.
    pub cluster: Option<Arc<str>>,
    /// Label with the name of the namespace in the project.
    pub namespace: Option<Arc<str>>,
    /// The profile of the Pod Security Standards that the namespace enforces.
    pub enforced: Option<Arc<str>>,
}

/// Builds the digest of a Namespace.
pub fn namespace(object: &DynamicObject, words: &mut Strings) -> Namespace {
    Namespace {
        cluster: label(object, keys::UPSTREAM_CLUSTER, words),
        namespace: label(object, keys::UPSTREAM_NAMESPACE, words),
        enforced: label(object, keys::POD_SECURITY, words),
    }
}

/// The city code of a `ServingLocation`.
pub fn place(object: &DynamicObject, words: &mut Strings) -> Option<Arc<str>> {
    let city = object.data["spec"]["topology"][keys::CITY_CODE].as_str();
    city.map(|city| words.intern(city))
}

/// The release records of a `ConfigMap`.
pub fn records(object: &DynamicObject, _: &mut Strings) -> BTreeMap<String, String> {
    serde_json::from_value(object.data["data"].clone()).unwrap_or_default()
}
