//! Triggers of returns: the Secrets that a change of the index concerns.

use crate::index::{
    GatewayIndex,
    change::{Change, SourceChange},
};
use fedgate_engine::key::Key;
use fedgate_kinds::CompanionKind;

/// Adds the keys of the Secrets whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        Change::Returned { hub, name } => keys.extend(index.return_key(hub, name)),
        // A Secret of the tenant's may have had the name.
        Change::Payload {
            project,
            kind: CompanionKind::SECRET,
            namespace,
            name,
        } => {
            let hub = index.hub_namespace(project, namespace);
            let awaited = hub.filter(|hub| index.returned(hub.as_str(), name, None).is_some());
            keys.extend(awaited.and_then(|hub| index.return_key(hub.as_str(), name)));
        }
        Change::Copy {
            copy: (kind, hub, name),
            ..
        }
        | Change::Pinned((kind, hub, name))
        | Change::Source(SourceChange {
            kind,
            name,
            hub: Some(hub),
            replaced: true,
            ..
        }) => index.return_keys_of((*kind, hub, name), keys),
        Change::HubNamespace { hub }
        | Change::Owner { hub }
        | Change::OwnerProven { hub }
        | Change::ProjectNamespace { hub: Some(hub), .. } => index.return_keys(hub, keys),
        Change::Suspension { project } if index.has_returns() => {
            for hub in index.hub_namespaces_of(project) {
                index.return_keys(hub, keys);
            }
        }
        Change::Binding(_)
        | Change::BindingOrphaned { .. }
        | Change::City { .. }
        | Change::CityPolicy { .. }
        | Change::CitySet { .. }
        | Change::CitySetLeft { .. }
        | Change::CitySetsOfProject { .. }
        | Change::ClaimRejected { .. }
        | Change::Companion { .. }
        | Change::CompanionDelivered { .. }
        | Change::Interpreter { .. }
        | Change::Member { .. }
        | Change::Payload { .. }
        | Change::PlaceFreed { .. }
        | Change::Platform(_)
        | Change::ProjectNamespace { hub: None, .. }
        | Change::Projection { .. }
        | Change::Reported(_)
        | Change::Source(_)
        | Change::Suspension { .. }
        | Change::Workload { .. }
        | Change::WorkloadChecks { .. }
        | Change::WriteBack { .. } => {}
    }
}
