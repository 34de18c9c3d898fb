//! What is known of an Instance.

use super::{
    ready::{Verdict, gates},
    referenced_data,
};
use crate::{
    api::{
        ConditionStatus, Reason,
        conditions::{find, types::REFERENCED_DATA_READY},
    },
    cell::{
        context::Context,
        effects::Version,
        network::{
            self,
            decide::{Deployment, State},
        },
        world::{
            Located, World,
            digest::{self, Instance},
        },
    },
    engine::key::Key,
};
use std::sync::Arc;

/// An Instance and what surrounds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its version.
    pub version: Version,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it says.
    pub instance: Instance,
    /// What is to be said of its referenced data; `None` if it has none.
    pub data: Option<Verdict>,
    /// What the network says that refuses the deployment, if one does.
    pub network_refused: Option<String>,
    /// Whether it is written back.
    pub hub: bool,
}

/// Looks at an Instance; `None` if it is gone or not all is known yet.
pub fn observe(ctx: &Context, key: &Key) -> Option<Snapshot> {
    let world = ctx.world.lock();
    if !world.cell_ready() {
        return None;
    }
    let row = world.instances.get(&key.namespace, &key.name)?;
    let instance = &row.digest;
    Some(Snapshot {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        version: Version {
            uid: row.uid.clone(),
            version: row.resource_version().into(),
        },
        deleting: row.deleting,
        data: data(&world, &key.namespace, instance),
        network_refused: refused(&world, &key.namespace, instance),
        hub: world.reading.hub,
        instance: instance.clone(),
    })
}

fn data(world: &World, namespace: &str, instance: &Instance) -> Option<Verdict> {
    let gated = instance.has_gate(gates::REFERENCED_DATA);
    let said = find(&instance.conditions, REFERENCED_DATA_READY);
    if !gated && said.is_none() {
        return None;
    }
    if !world.reading.data {
        let message = "this cell does not wait for referenced data";
        return Some(Verdict::of(ConditionStatus::True, Reason::Ready, message));
    }
    // It has been there once; what becomes of it later is for whoever runs the process.
    if !gated && said.is_some_and(|said| said.status == ConditionStatus::True) {
        return said.map(Verdict::like);
    }
    let deployment = world.deployment_of(namespace, instance).map(|row| &row.digest);
    let text = |of: fn(&digest::Deployment) -> Option<&Arc<str>>| deployment.and_then(of).map(|text| &**text);
    let is_there = |token: &str| match token.split_once('/') {
        Some(("ConfigMap", name)) => world
            .config_maps
            .get(namespace, name)
            .is_some_and(|row| !row.deleting),
        Some(("Secret", name)) => world
            .secrets
            .get(namespace, name)
            .is_some_and(|row| !row.deleting),
        _ => false,
    };
    Some(referenced_data::verdict(
        text(|of| of.data_error.as_ref()),
        text(|of| of.expected.as_ref()),
        is_there,
    ))
}

fn refused(world: &World, namespace: &str, instance: &Instance) -> Option<String> {
    if !world.reading.networking || !instance.has_gate(gates::NETWORK) {
        return None;
    }
    let Located::At { location, .. } = world.located() else {
        return None;
    };
    let row = world.deployment_of(namespace, instance)?;
    let spec = row.digest.spec.as_ref().ok()?;
    let deployment = Deployment {
        namespace,
        name: &instance.owner.as_ref()?.name,
        uid: &row.uid,
        networks: &spec.networks,
        location: &location,
    };
    let known = network::known(world, namespace, deployment.name, &row.uid);
    match network::decide::decide(&deployment, &known) {
        (_, State::Refused(why)) => Some(why),
        (_, State::Ready | State::Pending) => None,
    }
}
