//! The hub's objects of an Instance.

use crate::{
    context::Shared,
    index::digest::{HubDeployment, HubInstance, Namespace},
};
use fedgate_api::keys;
use fedgate_engine::{key::Key, store::table::Row};
use std::sync::Arc;

/// The hub's objects of an Instance, and its origin by the labels of the cell's namespace.
#[derive(Debug, Clone)]
pub struct HubView {
    /// Name of the cell.
    pub cell: Arc<str>,
    /// The namespace at the cell.
    pub here: Option<Namespace>,
    /// The Namespace on the hub.
    pub there: Option<Namespace>,
    /// The deployment on the hub that the Instance's label names, unless it is being deleted.
    pub deployment: Option<Row<HubDeployment>>,
    /// The Instance of this name on the hub.
    pub write_back: Option<Row<HubInstance>>,
}

/// Takes the snapshot; `None` while a list of the hub is incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<HubView> {
    let index = ctx.index.lock();
    if !index.hub_ready() {
        return None;
    }
    let label = index.instances.get(&key.namespace, &key.name).and_then(|row| {
        let name = row.digest.labels.get(keys::WORKLOAD_DEPLOYMENT_NAME);
        name.map(str::to_owned)
    });
    let deployment = label.and_then(|name| index.hub_deployment(&key.namespace, &name));
    let namespace = |row: &Row<Namespace>| row.digest.clone();
    let there = index.hub_namespaces.get("", &key.namespace);
    Some(HubView {
        cell: index.settings.cell.clone(),
        here: index.namespaces.get("", &key.namespace).map(namespace),
        there: there.filter(|row| !row.deleting).map(namespace),
        deployment: deployment.filter(|row| !row.deleting).cloned(),
        write_back: index.write_backs.get(&key.namespace, &key.name).cloned(),
    })
}
