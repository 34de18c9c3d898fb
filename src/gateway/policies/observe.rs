//! What is known of a hub namespace's policies, taken from the index in one go.

use super::decide::Snapshot;
use crate::{
    api::names::CityCode,
    gateway::{garbage, namespaces, world::World},
};
use std::collections::BTreeSet;

/// Whether a city's policy must stay: the city is in use, or a binding is claimed by the policy.
pub fn needed(world: &World, hub: &str, kind: usize, city: &CityCode) -> bool {
    world.cities_of_kind(kind, hub).contains(city) || claims(world, hub, kind, city)
}

fn claims(world: &World, hub: &str, kind: usize, city: &CityCode) -> bool {
    let policy = world.city_policy(kind, hub, city);
    policy.is_some_and(|(name, _)| world.hub.index.claims(hub, name))
}

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(world: &World, hub: &str) -> Option<Snapshot> {
    let tie = world.ties.get(hub);
    if !world.hub_ready() || tie.is_some_and(|tie| !world.project_ready(&tie.project)) {
        return None;
    }
    // An earlier life's policies go after its copies, and nothing of the new one comes before.
    let earlier = tie.is_some_and(|tie| namespaces::earlier_life(world, &tie.project, hub));
    let used: Vec<_> = (0..world.kinds.len())
        .map(|i| {
            if earlier {
                BTreeSet::new()
            } else {
                world.cities_of_kind(i, hub)
            }
        })
        .collect();
    let policies: Vec<_> = world
        .hub
        .city_policies
        .in_namespace(hub)
        .map(|(name, row)| (name.clone(), row.clone()))
        .collect();
    // Who announces a city is not seen while the project is not engaged: nothing is let go of then.
    let hidden = tie.is_none() && !garbage::proven_gone(world, hub);
    let needed = used
        .iter()
        .enumerate()
        .map(|(i, cities)| {
            let held = policies
                .iter()
                .filter_map(|(_, row)| row.digest.selects.as_ref())
                .filter(|(k, city)| *k == i && (hidden || claims(world, hub, i, city)))
                .map(|(_, city)| city.clone());
            let copied = earlier.then(|| world.cities_of_copies(i, hub));
            cities
                .iter()
                .cloned()
                .chain(held)
                .chain(copied.into_iter().flatten())
                .collect()
        })
        .collect();
    Some(Snapshot {
        kinds: world.kinds.clone(),
        resource: world.resources.city_policies.clone(),
        namespace: hub.into(),
        open: namespaces::is_open(world, hub),
        used,
        needed,
        proven: world.lacks_proof(hub).is_none(),
        policies,
    })
}
