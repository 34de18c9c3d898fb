//! Takes a snapshot of an Instance, its Pod, its Service and its `NetworkPolicy` from the index.

use crate::{
    context::Shared,
    index::digest::{Attached, Instance, Pod},
    writes::ObjectVersion,
};
use fedgate_engine::{key::Key, store::table::Row};
use std::sync::Arc;

/// An Instance and the provider's objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Namespace of the Instance.
    pub namespace: Arc<str>,
    /// Name of the Instance.
    pub name: Arc<str>,
    /// The Instance; `None` if it does not exist.
    pub instance: Option<Known<Instance>>,
    /// The Pod with the Instance's name.
    pub pod: Option<Known<Pod>>,
    /// The Service with the Instance's name.
    pub service: Option<Known<Attached>>,
    /// The `NetworkPolicy` with the Instance's name.
    pub policy: Option<Known<Attached>>,
    /// True if the namespace belongs to one tenant and enforces no Pod Security profile.
    pub unenforced: bool,
}

/// An object from the index.
#[derive(Debug, Clone, PartialEq)]
pub struct Known<D> {
    /// UID and resource version.
    pub version: ObjectVersion,
    /// True if the object is being deleted.
    pub deleting: bool,
    /// Digest of the object.
    pub digest: D,
}

impl<D: Clone + PartialEq> Known<D> {
    fn of(row: &Row<D>) -> Self {
        Self {
            version: ObjectVersion {
                uid: row.uid.clone(),
                version: row.resource_version().into(),
            },
            deleting: row.deleting,
            digest: row.digest.clone(),
        }
    }
}

/// Takes a snapshot; `None` if the lists are incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<Snapshot> {
    let index = ctx.index.lock();
    let synced = index.pods.synced() && index.services.synced() && index.network_policies.synced();
    if !index.cell_ready() || !synced {
        return None;
    }
    let (namespace, name) = (&key.namespace, &key.name);
    Some(Snapshot {
        namespace: namespace.clone(),
        name: name.clone(),
        instance: index.instances.get(namespace, name).map(Known::of),
        pod: index.pods.get(namespace, name).map(Known::of),
        service: index.services.get(namespace, name).map(Known::of),
        policy: index.network_policies.get(namespace, name).map(Known::of),
        unenforced: index.namespaces.get("", namespace).is_some_and(|row| {
            let digest = &row.digest;
            digest.cluster.is_some() && digest.namespace.is_some() && digest.enforced.is_none()
        }),
    })
}
