//! Triggers of the projector: the write-backs that a change of the index concerns.

use crate::index::{
    GatewayIndex, ObjectRef, TableId,
    change::{BindingChange, Change, CopyNews, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the write-backs whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    let key =
        |object: &ObjectRef| index.hub_key(TableId::WrittenBack(object.kind), &object.hub, &object.name);
    match change {
        Change::Instance { instance, .. } => keys.push(key(instance)),
        Change::HubNamespace { hub, .. } | Change::ProjectNamespace { hub: Some(hub), .. } => {
            index.write_back_keys(hub, keys);
        }
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
        }) => index.write_back_keys_of(&ObjectRef::new(*kind, hub, name), keys),
        Change::Copy {
            copy,
            news: CopyNews::Moved,
        } => index.write_back_keys_of(copy, keys),
        Change::Copy {
            copy,
            news: CopyNews::Reported,
        } => projections_of(index, copy, keys),
        Change::Suspension { project } => {
            for hub in index.hub_namespaces_of(project) {
                index.write_back_keys(hub, keys);
            }
        }
        Change::Keys(_)
        | Change::Binding(_)
        | Change::CityPolicy { .. }
        | Change::Cluster { .. }
        | Change::Companion { .. }
        | Change::Copy { .. }
        | Change::Payload { .. }
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Source(_) => {}
    }
}

/// The write-backs whose projections belong to a deployment, whether they exist or not.
fn projections_of(index: &GatewayIndex, copy: &ObjectRef, keys: &mut Vec<Key>) {
    let ObjectRef { kind, hub, name } = copy;
    let Some((project, owner)) = index.owning(hub) else {
        return;
    };
    let projections = project.projections[*kind].in_namespace(&owner.namespace);
    let of_deployment = projections.filter(|(_, row)| {
        let mut owner = row.digest.owner.iter();
        owner.any(|(deployment, _)| deployment == name)
    });
    keys.extend(of_deployment.map(|(name, _)| index.hub_key(TableId::WrittenBack(*kind), hub, name)));
}
