//! Observes a hub Namespace, and the cities that its project namespace uses.

use super::decide::Snapshot;
use crate::{index::GatewayIndex, queries::lifecycle};
use fedgate_api::names::{CityCode, city_set, plain_set};
use std::collections::BTreeSet;

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(index: &GatewayIndex, hub: &str) -> Option<Snapshot> {
    if !index.hub_ready() {
        return None;
    }
    let owner = index.owners.get(hub)?;
    if !index.project_ready(&owner.project) {
        return None;
    }
    let row = index.hub.namespaces.get("", hub).cloned();
    let project_uid = index.projects.get(&owner.project).and_then(|p| p.uid.clone())?;
    let mut in_use = BTreeSet::new();
    let mut written_back = BTreeSet::new();
    let mut unlabelled = false;
    for i in index.kinds.ids() {
        in_use.extend(index.cities_of_kind(i, hub));
    }
    for ((city, _), _) in index.summary.places(hub) {
        match city {
            Some(city) => drop(written_back.insert(city.clone())),
            None => unlabelled = true,
        }
    }
    let labelled = row.as_ref().and_then(|r| r.digest.cities.clone());
    let written_set = index.intents.deliveries.at(hub, labelled.as_ref());
    let written_set = written_set.filter(|_| row.is_some()).cloned();
    let set = written_set.or(labelled);
    let all: BTreeSet<CityCode> = in_use.iter().chain(&written_back).cloned().collect();
    let plain = set.as_deref().map(plain_set);
    let named = |cities: &BTreeSet<CityCode>| city_set(cities).as_deref() == plain;
    let current = match &set {
        Some(_) if named(&in_use) => Some(in_use.clone()),
        Some(_) if named(&all) => Some(all),
        Some(set) => index.cities_of_set(set),
        None => Some(BTreeSet::new()),
    };
    // The cell writes the city of a write-back: that may keep a city in the set, but never add one.
    let holds = |city: &CityCode| current.as_ref().is_some_and(|c| c.is_empty() || c.contains(city));
    in_use.extend(written_back.into_iter().filter(holds));
    Some(Snapshot {
        name: hub.into(),
        preserves: index.has_pins_in(hub),
        label: index.cluster_label().to_owned(),
        resources: index.resources.clone(),
        cluster: owner.project.label(),
        namespace: owner.namespace.clone(),
        project_uid,
        reassigned: row
            .as_ref()
            .and_then(|row| row.digest.reassign_to.as_deref())
            .is_some_and(|to| to == owner.project.as_str()),
        earlier_life: lifecycle::earlier_life(index, &owner.project, hub),
        in_use,
        unlabelled: unlabelled || index.lacks_proof(hub).is_some(),
        current,
        left: index.intents.lingering.get(hub).cloned().unwrap_or_default(),
        row,
    })
}
