//! Triggers of the garbage collector: copies, policies of city sets and bindings that a change of the index may have
//! orphaned. Those of hub Namespaces are in `namespaces/triggers.rs`.

use crate::{
    index::{
        GatewayIndex, ObjectRef, TableId,
        change::{BindingChange, Change, CopyNews, SourceChange},
    },
    queries::lifecycle,
};
use fedgate_engine::key::Key;

/// True if the objects of a hub namespace are of no project namespace that is there.
fn is_orphaned(index: &GatewayIndex, hub: &str) -> bool {
    let owner = index.owners.get(hub);
    owner.is_none_or(|owner| lifecycle::earlier_life(index, &owner.project, hub))
}

/// Adds the keys of the hub's objects that a change may have orphaned.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |object: &ObjectRef| index.hub_key(TableId::Federated(object.kind), &object.hub, &object.name);
    match change {
        Change::HubNamespace { hub, .. } | Change::ProjectNamespace { hub: Some(hub), .. } => {
            index.copy_keys(hub, keys);
        }
        Change::Copy {
            copy,
            news: news @ (CopyNews::Moved | CopyNews::Pinned),
        } => {
            if *news == CopyNews::Pinned {
                keys.push(index.hub_key(TableId::Namespaces, "", &copy.hub));
            }
            keys.push(key(copy));
        }
        Change::Source(SourceChange {
            kind,
            name,
            hub: Some(hub),
            announced,
            held,
            ..
        }) if *announced || *held => keys.push(index.hub_key(TableId::Federated(*kind), hub, name)),
        Change::Binding(BindingChange {
            hub,
            template: Some((kind, name)),
            ..
        }) if index.kinds[*kind].is_exactly_one() => {
            keys.push(index.hub_key(TableId::Federated(*kind), hub, name));
        }
        // Whether an orphan is gone at its member can be said of the pinned Cluster alone.
        Change::Cluster { pinned, .. } => keys.extend(pinned.iter().map(key)),
        Change::CityPolicy { hub } if index.has_pins_in(hub) => index.pinned_keys(hub, keys),
        // An orphan waits until the companions that went with it are taken off its member.
        Change::Companion { hub, .. } if index.has_pins_in(hub) && is_orphaned(index, hub) => {
            index.pinned_keys(hub, keys);
        }
        Change::Keys(_)
        | Change::Binding(_)
        | Change::CityPolicy { .. }
        | Change::Companion { .. }
        | Change::Copy { .. }
        | Change::Instance { .. }
        | Change::Payload { .. }
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Source(_)
        | Change::Suspension { .. } => {}
    }
}
