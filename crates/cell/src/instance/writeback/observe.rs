//! The hub's objects of an Instance.

use crate::{
    context::Shared,
    index::digest::{self, HubInstance, Namespace},
    writes::ObjectVersion,
};
use fedgate_engine::key::Key;
use kube::core::DynamicObject;
use std::sync::Arc;

/// The hub's objects of an Instance, and its origin by the labels of the cell's namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Name of the cell.
    pub cell: Arc<str>,
    /// The namespace at the cell.
    pub here: Option<Namespace>,
    /// The Namespace on the hub.
    pub there: Option<Namespace>,
    /// The deployment on the hub that the Instance's label names, unless it is being deleted.
    pub deployment: Option<HubDeployment>,
    /// The Instance of this name on the hub.
    pub copy: Option<HubCopy>,
}

/// A deployment on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct HubDeployment {
    /// Its UID.
    pub uid: Arc<str>,
    /// The place to which it is delivered.
    pub delivered: digest::HubDeployment,
}

/// An Instance on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct HubCopy {
    /// Its version.
    pub version: ObjectVersion,
    /// True if it is being deleted.
    pub deleting: bool,
    /// Its content.
    pub copy: HubInstance,
}

/// Takes the snapshot; `None` while a list of the hub is incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<Seen> {
    let index = ctx.index.lock();
    if !index.hub_ready() {
        return None;
    }
    let label = index.instances.get(&key.namespace, &key.name).and_then(|row| {
        let name = row.digest.labels.get(fedgate_api::keys::WORKLOAD_DEPLOYMENT_NAME);
        name.map(str::to_owned)
    });
    let deployment = label.and_then(|name| index.hub_deployment(&key.namespace, &name));
    let namespace = |row: &fedgate_engine::store::table::Row<Namespace>| row.digest.clone();
    Some(Seen {
        cell: index.reading.cell.clone(),
        here: index.namespaces.get("", &key.namespace).map(namespace),
        there: index
            .hub_namespaces
            .get("", &key.namespace)
            .filter(|row| !row.deleting)
            .map(namespace),
        deployment: deployment.filter(|row| !row.deleting).map(|row| HubDeployment {
            uid: row.uid.clone(),
            delivered: row.digest.clone(),
        }),
        copy: index.copies.get(&key.namespace, &key.name).map(|row| HubCopy {
            version: ObjectVersion {
                uid: row.uid.clone(),
                version: row.resource_version().into(),
            },
            deleting: row.deleting,
            copy: row.digest.clone(),
        }),
    })
}

/// Digests a copy that was read.
pub fn read(object: &DynamicObject) -> HubCopy {
    let meta = &object.metadata;
    let text = |of: &Option<String>| of.as_deref().unwrap_or_default().into();
    HubCopy {
        version: ObjectVersion {
            uid: text(&meta.uid),
            version: text(&meta.resource_version),
        },
        deleting: meta.deletion_timestamp.is_some(),
        copy: digest::copy(object, &mut digest::Strings::default()),
    }
}
