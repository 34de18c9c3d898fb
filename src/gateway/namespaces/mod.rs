//! Namespace delivery: each hub Namespace exists only at the cells of the cities in use
//! (contract: federation.md §3.5).

pub mod decide;
mod life;

#[cfg(test)]
mod tests;

pub use life::earlier_life;

use super::{
    context::{PASSES, Turn},
    world::World,
};
use crate::{
    api::names::{CityCode, cities_of_set, city_set, city_set_policy},
    engine::{error::Failure, key::Key, plan::Next},
};
use decide::Snapshot;
use std::{collections::BTreeSet, sync::Arc};

/// Verdict on a Namespace that names another owner.
const FOREIGN: &str = "identity_mismatch";
/// Verdict on a Namespace whose set of cities has the name of another set.
const COLLISION: &str = "city_set_collision";

/// Takes the snapshot; `None` while the lists it depends on are incomplete.
pub fn observe(world: &World, hub: &str) -> Option<Snapshot> {
    if !world.hub_ready() {
        return None;
    }
    let tie = world.ties.get(hub)?;
    if !world.project_ready(&tie.project) {
        return None;
    }
    let row = world.hub.namespaces.get("", hub).cloned();
    let project_uid = world.projects.get(&tie.project).and_then(|p| p.uid.clone())?;
    let mut in_use = BTreeSet::new();
    let mut written_back = BTreeSet::new();
    let mut unlabelled = false;
    for i in 0..world.kinds.len() {
        in_use.extend(world.cities_of_kind(i, hub));
        for (_, write_back) in world.hub.write_backs[i].in_namespace(hub) {
            match &write_back.digest.city {
                Some(city) => drop(written_back.insert(city.clone())),
                None => unlabelled = true,
            }
        }
    }
    let set = row.as_ref().and_then(|r| r.digest.cities.clone());
    let policy = |set: &str| world.hub.city_sets.get("", &city_set_policy(set)).cloned();
    // What someone has written into the policy is no city of the set.
    let listed = |set: &str| {
        let cities = policy(set)?.digest.cities?;
        (city_set(&cities).as_deref() == Some(set)).then_some(cities)
    };
    let current = set
        .as_deref()
        .and_then(|set| listed(set).or_else(|| cities_of_set(set)))
        .unwrap_or_default();
    // A cell writes that city: it may hold one of the set, never bring one in.
    let holds = |city: &CityCode| current.is_empty() || current.contains(city);
    in_use.extend(written_back.into_iter().filter(holds));
    Some(Snapshot {
        name: hub.into(),
        label: world.cluster_label().to_owned(),
        resources: world.resources.clone(),
        cluster: tie.project.label(),
        namespace: tie.namespace.clone(),
        project_uid,
        earlier_life: earlier_life(world, &tie.project, hub),
        in_use,
        unlabelled,
        current,
        left: world
            .left
            .iter()
            .filter(|((ns, _), _)| **ns == *hub)
            .map(|((_, c), t)| (c.clone(), *t))
            .collect(),
        city_sets: world
            .hub
            .city_sets
            .iter()
            .map(|((_, name), row)| (name.clone(), row.clone()))
            .collect(),
        row,
    })
}

/// One turn of a hub Namespace that belongs to a live project namespace.
pub async fn reconcile(ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
    let hub = &*key.name;
    for _ in 0..PASSES {
        let now = ctx.now();
        let (decision, condemned) = {
            let mut world = ctx.world.lock();
            let Some(snapshot) = observe(&world, hub) else {
                return Ok(Next::OnEvent);
            };
            let decision = decide::decide(&snapshot, ctx.settings.city_linger, now);
            world.left.retain(|(ns, _), _| **ns != *hub);
            world.left.extend(
                decision
                    .left
                    .iter()
                    .map(|(c, t)| ((Arc::from(hub), c.clone()), *t)),
            );
            let condemned: Vec<(Arc<str>, CityCode)> = decision
                .narrowed
                .iter()
                .map(|c| (Arc::from(hub), c.clone()))
                .collect();
            world.condemned.extend(condemned.iter().cloned());
            (decision, condemned)
        };
        if decision.foreign {
            if ctx.quarantine.put(key, FOREIGN) {
                ctx.metrics.identity_rejected(FOREIGN);
                tracing::warn!(
                    plane = "hub",
                    controller = "namespaces",
                    namespace = hub,
                    "its identity labels name another owner: nothing is written here until they agree or it is gone"
                );
            }
            return Ok(Next::OnEvent);
        }
        if decision.collision {
            if ctx.quarantine.put(key, COLLISION) {
                tracing::error!(
                    plane = "hub",
                    controller = "namespaces",
                    namespace = hub,
                    "the policy of its city set is that of other cities under the same hash: its cities stay as they are; one of the two tenants must use another set"
                );
            }
            return Ok(Next::OnEvent);
        }
        ctx.quarantine.release(key);
        if decision.plan.is_idle() {
            return Ok(decision.plan.next);
        }
        if decision.identity_restored {
            ctx.metrics.identity_rejected("namespace_labels_edited");
            tracing::warn!(
                plane = "hub",
                controller = "namespaces",
                namespace = hub,
                "identity labels were edited; restored"
            );
        }
        let reasons: Vec<_> = decision
            .plan
            .effects
            .iter()
            .map(|e| format!("{} {}", e.reason, e.target.name))
            .collect();
        let result = ctx.perform(decision.plan).await;
        ctx.lift_ban(hub, &condemned);
        result?;
        tracing::info!(
            plane = "hub",
            controller = "namespaces",
            namespace = hub,
            changes = reasons.join(", "),
            "hub Namespace changed"
        );
    }
    Ok(Next::OnEvent)
}
