//! Kinds of which the platform owns every object.

use kube::core::{ApiResource, Selector};

/// A cluster-scoped kind that the platform writes on the hub and the gateway projects into the projects.
#[derive(Debug, Clone)]
pub struct PlatformKind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Selects the hub's objects that are projected.
    pub selector: Selector,
    /// Path of its `kind.yaml`; below `(built in)` for kinds in the executable.
    pub origin: String,
}
