//! Triggers of hub Namespaces: those that a change of the index concerns. Without an owner, the garbage collector
//! reconciles their keys.

use crate::index::{
    GatewayIndex, TableId,
    change::{BindingChange, Change, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the hub Namespaces whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |hub: &str| index.hub_key(TableId::Namespaces, "", hub);
    match change {
        Change::HubNamespace { hub }
        | Change::Owner { hub }
        | Change::OwnerProven { hub }
        // The object may have been the last one of an earlier owner.
        | Change::CityPolicy { hub }
        | Change::Companion { hub, .. }
        | Change::Pinned((_, hub, _))
        | Change::Binding(BindingChange {
            hub,
            template: Some(_),
            released: true,
            ..
        })
        | Change::Copy {
            copy: (_, hub, _),
            moved: true,
        }
        | Change::WriteBack {
            hub, moved: true, ..
        }
        | Change::Source(SourceChange {
            hub: Some(hub),
            announced: true,
            ..
        }) => keys.push(key(hub)),
        // The object may have been the last one in a Namespace without an owner.
        Change::Binding(BindingChange { hub, gone: true, .. })
        | Change::Copy {
            copy: (_, hub, _),
            moved: false,
        } => keys.extend((!index.owners.contains_key(hub)).then(|| key(hub))),
        Change::ProjectNamespace { left, hub, .. } => {
            keys.extend([left, hub].into_iter().flatten().map(|hub| key(hub)));
        }
        Change::City { hubs, .. } => keys.extend(hubs.iter().map(|hub| key(hub.as_str()))),
        // Namespaces that are to have this set may have waited for the deletion of its policy.
        Change::CitySet { set, .. } => keys.extend(index.namespace_keys_of_set(set)),
        Change::CitySetsOfProject { label, new } => keys.extend(index.limited_keys(label, new.as_ref())),
        Change::Binding(_)
        | Change::BindingOrphaned { .. }
        | Change::CitySetLeft { .. }
        | Change::ClaimRejected { .. }
        | Change::Interpreter { .. }
        | Change::Platform(_)
        | Change::CompanionDelivered { .. }
        | Change::Member { .. }
        | Change::Payload { .. }
        | Change::PlaceFreed { .. }
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
