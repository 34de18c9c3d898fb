//! Triggers of the platform's objects: those that a change of the index concerns.

use crate::index::{GatewayIndex, change::Change};
use fedgate_engine::key::Key;

/// Adds the keys of the objects whose decisions may depend on a change.
pub fn triggers(index: &GatewayIndex, change: &Change, keys: &mut Vec<Key>) {
    match change {
        Change::Platform(change) => index.platform_keys(change, keys),
        Change::Suspension { project } => index.platform_keys_of(project, keys),
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
        | Change::Copy { .. }
        | Change::HubNamespace { .. }
        | Change::Interpreter { .. }
        | Change::Member { .. }
        | Change::Owner { .. }
        | Change::OwnerProven { .. }
        | Change::Payload { .. }
        | Change::Pinned(_)
        | Change::PlaceFreed { .. }
        | Change::ProjectNamespace { .. }
        | Change::Projection { .. }
        | Change::Reported(_)
        | Change::Returned { .. }
        | Change::Source(_)
        | Change::Workload { .. }
        | Change::WorkloadChecks { .. }
        | Change::WriteBack { .. } => {}
    }
}
