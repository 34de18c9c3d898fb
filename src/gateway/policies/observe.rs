//! Observes the policies of a hub namespace in a single read of the index.

use super::decide::Snapshot;
use crate::gateway::{garbage, index::GatewayIndex, namespaces};
use fedgate_api::names::CityCode;
use std::collections::BTreeSet;

/// True if a city's policy must stay: the city is in use, or the policy claims a binding.
pub fn needed(index: &GatewayIndex, hub: &str, kind: usize, city: &CityCode) -> bool {
    index.cities_of_kind(kind, hub).contains(city) || claims(index, hub, kind, city)
}

fn claims(index: &GatewayIndex, hub: &str, kind: usize, city: &CityCode) -> bool {
    let policy = index.city_policy(kind, hub, city);
    policy.is_some_and(|(name, _)| index.hub.secondary.claims(hub, name))
}

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(index: &GatewayIndex, hub: &str) -> Option<Snapshot> {
    let owner = index.owners.get(hub);
    if !index.hub_ready() || owner.is_some_and(|owner| !index.project_ready(&owner.project)) {
        return None;
    }
    // Policies of an earlier project are deleted after its copies; no policy of the new project is created before that.
    let earlier = owner.is_some_and(|owner| namespaces::earlier_life(index, &owner.project, hub));
    let used: Vec<_> = (0..index.kinds.len())
        .map(|i| {
            if earlier {
                BTreeSet::new()
            } else {
                index.cities_of_kind(i, hub)
            }
        })
        .collect();
    let policies: Vec<_> = index
        .hub
        .city_policies
        .in_namespace(hub)
        .map(|(name, row)| (name.clone(), row.clone()))
        .collect();
    // While the project is not engaged, the cities that it announces are not visible: no policy is released then.
    let hidden = owner.is_none() && !garbage::proven_gone(index, hub);
    let needed = used
        .iter()
        .enumerate()
        .map(|(i, cities)| {
            let held = policies
                .iter()
                .filter_map(|(_, row)| row.digest.selects.as_ref())
                .filter(|(k, city)| *k == i && (hidden || claims(index, hub, i, city)))
                .map(|(_, city)| city.clone());
            let copied = earlier.then(|| index.cities_of_copies(i, hub));
            cities
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
        open: namespaces::is_open(index, hub),
        used,
        needed,
        proven: index.lacks_proof(hub).is_none(),
        policies,
    })
}
