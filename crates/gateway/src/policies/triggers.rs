//! Triggers of city policies: the hub namespaces whose policies a change of the index concerns.

use crate::index::{
    GatewayIndex, TableId,
    change::{BindingChange, Change, SourceChange},
};
use fedgate_engine::key::Key;

/// Adds the keys of the city policies whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    let key = |hub: &str| index.hub_key(TableId::CityPolicies, hub, "");
    match change {
        Change::HubNamespace { hub }
        | Change::Owner { hub }
        // In a namespace without its project the pins say whether the last lane is needed.
        | Change::Pinned((_, hub, _))
        | Change::OwnerProven { hub }
        | Change::CityPolicy { hub }
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
        | Change::ProjectNamespace { hub: Some(hub), .. }
        | Change::Source(SourceChange {
            hub: Some(hub),
            announced: true,
            ..
        }) => keys.push(key(hub)),
        Change::Companion { hub, .. } | Change::CompanionDelivered { hub, .. } if index.has_pins() => {
            keys.push(key(hub));
        }
        Change::City { hubs, .. } => keys.extend(hubs.iter().map(|hub| key(hub.as_str()))),
        Change::Binding(_)
        | Change::BindingOrphaned { .. }
        | Change::CitySet { .. }
        | Change::CitySetLeft { .. }
        | Change::CitySetsOfProject { .. }
        | Change::ClaimRejected { .. }
        | Change::Companion { .. }
        | Change::CompanionDelivered { .. }
        | Change::Copy { .. }
        | Change::Interpreter { .. }
        | Change::Platform(_)
        | Change::Payload { .. }
        | Change::Member { .. }
        | Change::PlaceFreed { .. }
        | Change::ProjectNamespace { .. }
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
