//! Triggers of Instances: those that a change of the index concerns.

use crate::conditions::gates;
use crate::index::{CellIndex, change::Change, digest::InstanceDigest, tables::TableId};
use fedgate_api::{conditions::types::REFERENCED_DATA_READY, keys as labels};
use fedgate_engine::{key::Key, store::table::Name};

/// Adds the keys of the Instances whose decisions may depend on a change.
pub fn triggers(index: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |namespace: &str, name: &str| TableId::Instances.key(namespace, name);
    match change {
        Change::Instance {
            name: (namespace, name),
            ..
        }
        | Change::HubInstance((namespace, name))
        | Change::Claim((namespace, name)) => keys.push(key(namespace, name)),
        Change::Namespace(namespace) => instances(index, namespace, |_| true, keys),
        Change::Deployment {
            name: (namespace, name),
            data: true,
        } => waiting_for_data(index, namespace, name, keys),
        Change::ConfigMap(name) => waiting_for_companion(index, "ConfigMap", name, keys),
        Change::Secret(name) => waiting_for_companion(index, "Secret", name, keys),
        Change::Location => {
            let all = index.instances.iter();
            let gated = all.filter(|(_, row)| row.digest.has_gate(gates::NETWORK));
            keys.extend(gated.map(|((namespace, name), _)| key(namespace, name)));
        }
        Change::Network(deployments) => {
            for (namespace, deployment) in deployments {
                let gated = |row: &InstanceDigest| is_of(row, deployment) && row.has_gate(gates::NETWORK);
                instances(index, namespace, gated, keys);
            }
        }
        Change::HubDeployment((namespace, deployment)) => {
            let of_it =
                |row: &InstanceDigest| row.labels.get(labels::WORKLOAD_DEPLOYMENT_NAME) == Some(deployment);
            instances(index, namespace, of_it, keys);
        }
        Change::ClaimsListed(project) => keys.extend(index.instances_of_project(project)),
        Change::Deployment { data: false, .. } | Change::Pod(_) | Change::Release(_) => {}
    }
}

/// Adds the keys of some Instances of a namespace.
fn instances(
    index: &CellIndex,
    namespace: &str,
    wanted: impl Fn(&InstanceDigest) -> bool,
    keys: &mut Vec<Key>,
) {
    let all = index.instances.in_namespace(namespace);
    let wanted = all.filter(|(_, row)| wanted(&row.digest));
    keys.extend(wanted.map(|(name, _)| TableId::Instances.key(namespace, name)));
}

/// Adds the keys of the Instances that wait for referenced data, of each deployment that expects this companion.
fn waiting_for_companion(index: &CellIndex, kind: &str, companion: &Name, keys: &mut Vec<Key>) {
    let (namespace, name) = companion;
    let token = format!("\"{kind}/{name}\"");
    for (deployment, row) in index.deployments.in_namespace(namespace) {
        if row
            .digest
            .expected
            .as_ref()
            .is_some_and(|all| all.contains(&token))
        {
            waiting_for_data(index, namespace, deployment, keys);
        }
    }
}

/// Adds the keys of a deployment's Instances that wait for referenced data.
fn waiting_for_data(index: &CellIndex, namespace: &str, deployment: &str, keys: &mut Vec<Key>) {
    let waits = |row: &InstanceDigest| {
        let has_condition = row.condition(REFERENCED_DATA_READY).is_some();
        is_of(row, deployment)
            && (row.has_gate(gates::REFERENCED_DATA) || has_condition && !row.is(REFERENCED_DATA_READY))
    };
    instances(index, namespace, waits, keys);
}

/// True if an Instance belongs to this deployment, by the name of its owner.
fn is_of(instance: &InstanceDigest, deployment: &str) -> bool {
    let owner = instance.owner.as_ref();
    owner.is_some_and(|owner| *owner.name == *deployment)
}
