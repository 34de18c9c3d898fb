//! Triggers of the garbage collector: copies, policies of city sets and bindings that a change of the index may have
//! orphaned. Those of hub Namespaces are in `namespaces/triggers.rs`.

use crate::{
    index::{
        Deployment, GatewayIndex, TableId,
        change::{BindingChange, Change, SourceChange},
    },
    queries::lifecycle,
};
use fedgate_api::names::city_set_policy;
use fedgate_engine::key::Key;

/// True if the objects of a hub namespace are of no project namespace that is there.
fn is_orphaned(index: &GatewayIndex, hub: &str) -> bool {
    let owner = index.owners.get(hub);
    owner.is_none_or(|owner| lifecycle::earlier_life(index, &owner.project, hub))
}

/// Adds the keys of the hub's objects that a change may have orphaned.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        Change::HubNamespace { hub }
        | Change::Owner { hub }
        | Change::OwnerProven { hub }
        | Change::ProjectNamespace { hub: Some(hub), .. } => index.copy_keys(hub, keys),
        Change::Copy {
            copy: (kind, hub, name),
            moved: true,
        } => keys.push(index.hub_key(TableId::Federated(*kind), hub, name)),
        Change::Source(SourceChange {
            kind,
            name,
            hub: Some(hub),
            announced,
            held,
            ..
        }) if *announced || *held => keys.push(index.hub_key(TableId::Federated(*kind), hub, name)),
        Change::Pinned((kind, hub, name)) => {
            keys.push(index.hub_key(TableId::Namespaces, "", hub));
            keys.push(index.hub_key(TableId::Federated(*kind), hub, name));
        }
        Change::Binding(BindingChange {
            hub,
            template: Some((kind, name)),
            ..
        }) if index.kinds[*kind].is_exactly_one() => {
            keys.push(index.hub_key(TableId::Federated(*kind), hub, name));
        }
        // Whether an orphan is gone at its member can be said of the pinned Cluster alone.
        Change::Member { pinned, .. } => {
            let key = |(kind, hub, name): &Deployment| index.hub_key(TableId::Federated(*kind), hub, name);
            keys.extend(pinned.iter().map(key));
        }
        Change::CityPolicy { hub } if index.has_pins_in(hub) => index.pinned_keys(hub, keys),
        // An orphan waits until the companions that went with it are taken off its member.
        Change::Companion { hub, .. } | Change::CompanionDelivered { hub, .. }
            if index.has_pins_in(hub) && is_orphaned(index, hub) =>
        {
            index.pinned_keys(hub, keys);
        }
        Change::CitySet { policy, .. } => keys.push(index.hub_key(TableId::CitySets, "", policy)),
        Change::CitySetLeft { set } => {
            keys.push(index.hub_key(TableId::CitySets, "", &city_set_policy(set)));
        }
        Change::BindingOrphaned { hub, name } => keys.push(index.hub_key(TableId::Bindings, hub, name)),
        Change::Binding(_)
        | Change::City { .. }
        | Change::CityPolicy { .. }
        | Change::CitySetsOfProject { .. }
        | Change::ClaimRejected { .. }
        | Change::Companion { .. }
        | Change::Copy { moved: false, .. }
        | Change::Interpreter { .. }
        | Change::Platform(_)
        | Change::CompanionDelivered { .. }
        | Change::Payload { .. }
        | Change::PlaceFreed { .. }
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Projection { .. }
        | Change::Reported(_)
        | Change::Returned { .. }
        | Change::Source(_)
        | Change::Suspension { .. }
        | Change::Workload { .. }
        | Change::WorkloadChecks { .. }
        | Change::WriteBack { .. } => {}
    }
}
