//! Takes a snapshot of an Instance from the index.

use super::referenced_data;
use crate::{
    conditions::{Verdict, gates},
    context::Shared,
    index::{
        CellIndex, CellLocation,
        digest::{self, Instance},
    },
    network::{
        self,
        decide::{Deployment, NetworkState},
        known::known,
    },
};
use fedgate_api::{
    ConditionStatus, Reason,
    conditions::{find, types::REFERENCED_DATA_READY},
};
use fedgate_engine::{key::Key, store::table::Row};
use std::sync::Arc;

/// An Instance and the index data that its decision needs.
#[derive(Debug, Clone)]
pub struct InstanceSnapshot {
    /// Namespace of the Instance.
    pub namespace: Arc<str>,
    /// Name of the Instance.
    pub name: Arc<str>,
    /// The Instance.
    pub row: Row<Instance>,
    /// Value of the condition `ReferencedDataReady`; `None` if the Instance has neither the gate nor the condition.
    pub data: Option<Verdict>,
    /// Message of the network's rejection of the deployment, if any.
    pub network_refused: Option<String>,
    /// True if the cell has a hub, so that the Instance is written back.
    pub hub: bool,
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
        hub: index.reading.hub,
        row: row.clone(),
    })
}

fn data(index: &CellIndex, namespace: &str, instance: &Instance) -> Option<Verdict> {
    let gated = instance.has_gate(gates::REFERENCED_DATA);
    let said = find(&instance.conditions, REFERENCED_DATA_READY);
    if !gated && said.is_none() {
        return None;
    }
    if !index.reading.data {
        let message = "this cell does not wait for referenced data";
        return Some(Verdict::of(ConditionStatus::True, Reason::Ready, message));
    }
    // The data has been complete once, and the Instance may run already: a later loss is up to the provider.
    if !gated && said.is_some_and(|said| said.status == ConditionStatus::True) {
        return said.map(Verdict::like);
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

fn refused(index: &CellIndex, namespace: &str, instance: &Instance) -> Option<String> {
    if !index.reading.networking || !instance.has_gate(gates::NETWORK) {
        return None;
    }
    let CellLocation::At { location, .. } = index.located() else {
        return None;
    };
    let row = index.deployment_of(namespace, instance)?;
    let spec = row.digest.spec.as_ref().ok()?;
    let deployment = Deployment {
        namespace,
        name: &instance.owner.as_ref()?.name,
        uid: &row.uid,
        networks: &spec.networks,
        location: &location,
    };
    let known = known(index, namespace, deployment.name, &row.uid);
    match network::decide::decide(&deployment, &known) {
        (_, NetworkState::Refused(why)) => Some(why),
        (_, NetworkState::Ready | NetworkState::Pending) => None,
    }
}
