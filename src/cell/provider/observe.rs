//! What is known of an Instance, its Pod, its Service and its `NetworkPolicy`.

use crate::{
    cell::{
        context::Context,
        effects::Version,
        world::digest::{Attached, Instance, Pod},
    },
    engine::key::Key,
    plane::table::Row,
};
use std::sync::Arc;

/// An Instance and what is run for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The Instance; `None` if it is gone.
    pub instance: Option<Known<Instance>>,
    /// The Pod of its name.
    pub pod: Option<Known<Pod>>,
    /// The Service of its name.
    pub service: Option<Known<Attached>>,
    /// The `NetworkPolicy` of its name.
    pub policy: Option<Known<Attached>>,
    /// Whether its namespace is a tenant's alone and enforces no profile on Pods.
    pub unenforced: bool,
}

/// An object.
#[derive(Debug, Clone, PartialEq)]
pub struct Known<D> {
    /// Its version.
    pub version: Version,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it says.
    pub digest: D,
}

impl<D: Clone + PartialEq> Known<D> {
    fn of(row: &Row<D>) -> Self {
        Self {
            version: Version {
                uid: row.uid.clone(),
                version: row.resource_version().into(),
            },
            deleting: row.deleting,
            digest: row.digest.clone(),
        }
    }
}

/// Looks; `None` if not all is known yet.
pub fn observe(ctx: &Context, key: &Key) -> Option<Snapshot> {
    let world = ctx.world.lock();
    let synced = world.pods.synced() && world.services.synced() && world.network_policies.synced();
    if !world.cell_ready() || !synced {
        return None;
    }
    let (namespace, name) = (&key.namespace, &key.name);
    Some(Snapshot {
        namespace: namespace.clone(),
        name: name.clone(),
        instance: world.instances.get(namespace, name).map(Known::of),
        pod: world.pods.get(namespace, name).map(Known::of),
        service: world.services.get(namespace, name).map(Known::of),
        policy: world.network_policies.get(namespace, name).map(Known::of),
        unenforced: world.namespaces.get("", namespace).is_some_and(|row| {
            let digest = &row.digest;
            digest.cluster.is_some() && digest.namespace.is_some() && digest.enforced.is_none()
        }),
    })
}
