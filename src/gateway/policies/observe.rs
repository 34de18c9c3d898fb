//! Observes the policies of a hub namespace in a single read of the index.

use super::decide::Snapshot;
use crate::gateway::{
    index::GatewayIndex,
    queries::{cities::policy_claims, lifecycle},
};
use fedgate_kinds::PerKind;
use std::collections::BTreeSet;

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(index: &GatewayIndex, hub: &str) -> Option<Snapshot> {
    let owner = index.owners.get(hub);
    if !index.hub_ready() || owner.is_some_and(|owner| !index.project_ready(&owner.project)) {
        return None;
    }
    // Policies of an earlier project are deleted after its copies; no policy of the new project is created before that.
    let earlier = owner.is_some_and(|owner| lifecycle::earlier_life(index, &owner.project, hub));
    let used: PerKind<_> = index
        .kinds
        .ids()
        .map(|i| {
            if earlier {
                BTreeSet::new()
            } else {
                index.routes_of_kind(i, hub)
            }
        })
        .collect();
    let policies: Vec<_> = index
        .hub
        .city_policies
        .in_namespace(hub)
        .map(|(name, row)| (name.clone(), row.clone()))
        .collect();
    // While the project is not engaged, the places that it announces are not visible: no policy is released then.
    let hidden = owner.is_none() && !lifecycle::proven_gone(index, hub);
    let needed = used
        .enumerate()
        .map(|(i, routes)| {
            let held = policies
                .iter()
                .filter_map(|(_, row)| row.digest.selects.as_ref())
                .filter(|(k, route)| *k == i && (hidden || policy_claims(index, hub, i, route)))
                .map(|(_, route)| route.clone());
            let copied = earlier.then(|| index.routes_of_copies(i, hub));
            routes
                .iter()
                .cloned()
                .chain(held)
                .chain(copied.into_iter().flatten())
                .collect()
        })
        .collect();
    Some(Snapshot {
        kinds: index.kinds.clone(),
        resource: index.resources.city_policies.clone(),
        namespace: hub.into(),
        open: lifecycle::is_open(index, hub),
        used,
        needed,
        proven: index.lacks_proof(hub).is_none(),
        policies,
    })
}
