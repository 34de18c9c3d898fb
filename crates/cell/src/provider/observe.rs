//! Takes a snapshot of an Instance, its Pod, its Service and its `NetworkPolicy` from the index.

use crate::{
    context::Shared,
    index::digest::{Attached, InstanceDigest, Pod},
};
use fedgate_engine::{key::Key, store::table::Row};
use std::sync::Arc;

/// An Instance and the provider's objects.
#[derive(Debug, Clone)]
pub struct PodSnapshot {
    /// Namespace of the Instance.
    pub namespace: Arc<str>,
    /// Name of the Instance.
    pub name: Arc<str>,
    /// The Instance; `None` if it does not exist.
    pub instance: Option<Row<InstanceDigest>>,
    /// The Pod with the Instance's name.
    pub pod: Option<Row<Pod>>,
    /// The Service with the Instance's name.
    pub service: Option<Row<Attached>>,
    /// The `NetworkPolicy` with the Instance's name.
    pub policy: Option<Row<Attached>>,
    /// True if the namespace belongs to one tenant and enforces no Pod Security profile.
    pub unenforced: bool,
}

/// Takes a snapshot; `None` if the lists are incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<PodSnapshot> {
    let index = ctx.index.lock();
    let synced = index.pods.synced() && index.services.synced() && index.network_policies.synced();
    if !index.cell_ready() || !synced {
        return None;
    }
    let (namespace, name) = (&key.namespace, &key.name);
    Some(PodSnapshot {
        namespace: namespace.clone(),
        name: name.clone(),
        instance: index.instances.get(namespace, name).cloned(),
        pod: index.pods.get(namespace, name).cloned(),
        service: index.services.get(namespace, name).cloned(),
        policy: index.network_policies.get(namespace, name).cloned(),
        unenforced: index.namespaces.get("", namespace).is_some_and(|row| {
            let digest = &row.digest;
            digest.cluster.is_some() && digest.namespace.is_some() && digest.enforced.is_none()
        }),
    })
}
