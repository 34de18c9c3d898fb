//! Takes a snapshot of an Instance from the index.

use super::referenced_data;
use crate::{
    conditions::{Verdict, gates},
    context::Shared,
    index::{
        CellIndex,
        digest::{self, InstanceDigest},
        tables::TableId,
    },
    network::{self, NetworkState},
};
use fedgate_api::{ConditionStatus, Reason, conditions::types::REFERENCED_DATA_READY, names::ProjectKey};
use fedgate_engine::{key::Key, plan::Target, store::table::Row};
use std::sync::Arc;

/// An Instance and the index data that its decision needs.
#[derive(Debug, Clone)]
pub struct InstanceSnapshot {
    /// Namespace of the Instance.
    pub namespace: Arc<str>,
    /// Name of the Instance.
    pub name: Arc<str>,
    /// The Instance.
    pub row: Row<InstanceDigest>,
    /// Value of the condition `ReferencedDataReady`; `None` if the Instance has neither the gate nor the condition.
    pub data: Option<Verdict>,
    /// Message of the network's rejection of the deployment, if any.
    pub network_refused: Option<String>,
    /// The project that owns the Instance's namespace, and the project's own namespace, if the labels name them.
    pub origin: Option<(ProjectKey, Arc<str>)>,
    /// True if the cell has a hub, so that the Instance is written back.
    pub hub: bool,
}

impl InstanceSnapshot {
    /// The Instance as the target of a write.
    pub fn target(&self) -> Target {
        TableId::Instances.target(&self.namespace, &self.name)
    }
}

/// Takes a snapshot of an Instance; `None` if the Instance is gone or the lists are incomplete.
pub fn observe(ctx: &Shared, key: &Key) -> Option<InstanceSnapshot> {
    let index = ctx.index.lock();
    if !index.cell_ready() {
        return None;
    }
    let row = index.instances.get(&key.namespace, &key.name)?;
    let instance = &row.digest;
    Some(InstanceSnapshot {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        data: data(&index, &key.namespace, instance),
        network_refused: refused(&index, &key.namespace, instance),
        origin: index.origin(&key.namespace),
        hub: index.settings.hub,
        row: row.clone(),
    })
}

fn data(index: &CellIndex, namespace: &str, instance: &InstanceDigest) -> Option<Verdict> {
    let gated = instance.has_gate(gates::REFERENCED_DATA);
    let said = instance.condition(REFERENCED_DATA_READY);
    if !gated && said.is_none() {
        return None;
    }
    if !index.settings.data {
        let message = "this cell does not wait for referenced data";
        return Some(Verdict::of(ConditionStatus::True, Reason::Ready, message));
    }
    // The data has been complete once, and the Instance may run already: a later loss is up to the provider.
    if !gated && instance.is(REFERENCED_DATA_READY) {
        return said.map(Verdict::from_condition);
    }
    let deployment = index.deployment_of(namespace, instance).map(|row| &row.digest);
    let text = |of: fn(&digest::Deployment) -> Option<&Arc<str>>| deployment.and_then(of).map(|text| &**text);
    let is_there = |token: &str| {
        let row = match token.split_once('/') {
            Some(("ConfigMap", name)) => index.config_maps.get(namespace, name),
            Some(("Secret", name)) => index.secrets.get(namespace, name),
            _ => None,
        };
        row.is_some_and(|row| !row.deleting)
    };
    Some(referenced_data::verdict(
        text(|of| of.data_error.as_ref()),
        text(|of| of.expected.as_ref()),
        is_there,
    ))
}

fn refused(index: &CellIndex, namespace: &str, instance: &InstanceDigest) -> Option<String> {
    let owner = instance
        .owner
        .as_ref()
        .filter(|_| instance.has_gate(gates::NETWORK))?;
    let row = index.deployment_of(namespace, instance)?;
    match network::of_deployment(index, namespace, &owner.name, row)?.state {
        NetworkState::Refused(why) => Some(why),
        NetworkState::Ready | NetworkState::Pending => None,
    }
}
