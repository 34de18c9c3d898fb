//! Triggers of the projector: the write-backs that a change of the index concerns.

use crate::index::{
    Deployment, GatewayIndex, TableId,
    change::{BindingChange, Change, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the write-backs whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        Change::WriteBack { kind, hub, name, .. } | Change::Projection { kind, hub, name } => {
            keys.push(index.hub_key(TableId::WrittenBack(*kind), hub, name));
        }
        Change::PlaceFreed { deployment, cell } => {
            let (kind, hub, _) = deployment;
            let names = index.next_projected(deployment, cell.as_ref()).into_iter();
            keys.extend(names.map(|name| index.hub_key(TableId::WrittenBack(*kind), hub, name)));
        }
        Change::HubNamespace { hub }
        | Change::Owner { hub }
        | Change::OwnerProven { hub }
        | Change::ProjectNamespace { hub: Some(hub), .. } => index.write_back_keys(hub, keys),
        Change::Binding(BindingChange {
            hub,
            template: Some((kind, name)),
            placed: true,
            ..
        })
        | Change::Source(SourceChange {
            kind,
            name,
            hub: Some(hub),
            replaced: true,
            ..
        }) => index.write_back_keys_of(&(*kind, hub.clone(), name.clone()), keys),
        Change::Copy { copy, moved: true } => index.write_back_keys_of(copy, keys),
        Change::Suspension { project } => {
            for hub in index.hub_namespaces_of(project) {
                index.write_back_keys(hub, keys);
            }
        }
        Change::Reported(deployment) => projections_of(index, deployment, keys),
        Change::Binding(_)
        | Change::BindingOrphaned { .. }
        | Change::City { .. }
        | Change::CityPolicy { .. }
        | Change::CitySet { .. }
        | Change::CitySetLeft { .. }
        | Change::CitySetsOfProject { .. }
        | Change::ClaimRejected { .. }
        | Change::Companion { .. }
        | Change::Copy { moved: false, .. }
        | Change::Interpreter { .. }
        | Change::Platform(_)
        | Change::CompanionDelivered { .. }
        | Change::Member { .. }
        | Change::Payload { .. }
        | Change::Pinned(_)
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Returned { .. }
        | Change::Source(_)
        | Change::Workload { .. }
        | Change::WorkloadChecks { .. } => {}
    }
}

/// The write-backs whose projections belong to a deployment, whether they exist or not.
fn projections_of(index: &GatewayIndex, (kind, hub, deployment): &Deployment, keys: &mut Vec<Key>) {
    let found = index.owners.get(hub);
    let Some((project, owner)) = found.and_then(|owner| Some((index.projects.get(&owner.project)?, owner)))
    else {
        return;
    };
    let projections = project.projections[*kind].in_namespace(&owner.namespace);
    let of_deployment = projections.filter(|(_, row)| {
        let mut owner = row.digest.owner.iter();
        owner.any(|(name, _)| name == deployment)
    });
    keys.extend(of_deployment.map(|(name, _)| index.hub_key(TableId::WrittenBack(*kind), hub, name)));
}
