//! Namespace delivery: each hub Namespace exists only at the cells of the cities in use
//! (contract: federation.md §3.5).

pub mod decide;
pub mod sets;

#[cfg(test)]
mod tests;

use super::{
    confirm,
    context::{PASSES, Turn},
    world::World,
};
use crate::{
    api::names::{CityCode, ProjectKey, city_set},
    engine::{error::Failure, key::Key, plan::Next, queue::Urgency},
};
use decide::Snapshot;
use std::{collections::BTreeSet, sync::Arc};

/// Verdict on a Namespace that names another owner.
const FOREIGN: &str = "identity_mismatch";
/// Verdict on a Namespace whose set of cities has the name of another set.
const COLLISION: &str = "city_set_collision";

/// Whether a hub namespace holds objects of an earlier project of the same name: another project's UID is on it and
/// nothing in it belongs to a live deployment. If something does, the label was merely edited.
///
/// All of it goes: copies by federator and garbage, with them bindings and write-backs, then companions and policies.
/// What nobody of these takes away does not count: it would hold up the new life for ever.
pub fn earlier_life(world: &World, project: &ProjectKey, hub: &str) -> bool {
    let Some(row) = world.hub.namespaces.get("", hub) else {
        return false;
    };
    let uid = world.projects.get(project).and_then(|p| p.uid.clone());
    if row.digest.project_uid.is_none() || row.digest.project_uid == uid {
        return false;
    }
    let mut dead = false;
    for i in 0..world.kinds.len() {
        let live: BTreeSet<&Arc<str>> = world.tied_sources(i, hub).map(|(_, row)| &row.uid).collect();
        for (_, copy) in world.hub.copies[i].in_namespace(hub) {
            match &copy.digest.source_uid {
                Some(uid) if live.contains(uid) => return false,
                uid => dead |= uid.is_some(),
            }
        }
        dead |= world.hub.write_backs[i]
            .in_namespace(hub)
            .any(|(_, w)| w.digest.controller.is_some());
    }
    let ours = |kind: &str| world.kinds.iter().any(|k| k.resource.kind == kind);
    dead || world.hub.config_maps.in_namespace(hub).next().is_some()
        || world.hub.secrets.in_namespace(hub).next().is_some()
        || world
            .hub
            .bindings
            .in_namespace(hub)
            .any(|(_, b)| ours(&b.digest.kind))
        || world
            .hub
            .city_policies
            .in_namespace(hub)
            .any(|(name, policy)| policy.digest.is_ours(name, &world.kinds))
}

/// Whether a hub namespace is there, here to stay, and names no other owner than the one it is tied to.
pub fn is_open(world: &World, hub: &str) -> bool {
    let namespace = world.hub.namespaces.get("", hub).filter(|n| !n.deleting);
    namespace.is_some_and(|n| {
        let tie = world.ties.get(hub);
        tie.is_none_or(|tie| !decide::foreign(&n.digest, &tie.project.label(), &tie.namespace))
    })
}

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
    }
    for city in world.hub.index.written_back(hub) {
        match city {
            Some(city) => drop(written_back.insert(city.clone())),
            None => unlabelled = true,
        }
    }
    let labelled = row.as_ref().and_then(|r| r.digest.cities.clone());
    let left_at = world.left_at.at(hub, labelled.as_ref());
    let left_at = left_at.filter(|_| row.is_some()).cloned();
    let set = left_at.or(labelled);
    let all: BTreeSet<CityCode> = in_use.iter().chain(&written_back).cloned().collect();
    let named = |cities: &BTreeSet<CityCode>| city_set(cities).as_deref() == set.as_deref();
    let current = match &set {
        Some(_) if named(&in_use) => Some(in_use.clone()),
        Some(_) if named(&all) => Some(all),
        Some(set) => world.cities_of_set(set),
        None => Some(BTreeSet::new()),
    };
    // A cell writes that city: it may hold one of the set, never bring one in.
    let holds = |city: &CityCode| current.as_ref().is_some_and(|c| c.is_empty() || c.contains(city));
    in_use.extend(written_back.into_iter().filter(holds));
    Some(Snapshot {
        name: hub.into(),
        label: world.cluster_label().to_owned(),
        resources: world.resources.clone(),
        cluster: tie.project.label(),
        namespace: tie.namespace.clone(),
        project_uid,
        reassigned: row
            .as_ref()
            .and_then(|row| row.digest.reassign_to.as_deref())
            .is_some_and(|to| to == tie.project.as_str()),
        earlier_life: earlier_life(world, &tie.project, hub),
        in_use,
        unlabelled: unlabelled || world.lacks_proof(hub).is_some(),
        current,
        left: world.left.get(hub).cloned().unwrap_or_default(),
        row,
    })
}

/// Notes the city set on a Namespace: what we have written, or what is found where nothing is noted yet.
fn note_set(world: &mut World, hub: &str, written: bool) {
    let row = world.hub.namespaces.get("", hub);
    let set = row.and_then(|row| row.digest.cities.clone());
    world.left_at.leave(&hub.into(), set.as_ref(), written);
}

/// One turn of a hub Namespace that belongs to a live project namespace.
pub async fn reconcile(ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
    let hub = &*key.name;
    for _ in 0..PASSES {
        let now = ctx.now();
        let (decision, condemned, told) = {
            let mut world = ctx.world.lock();
            confirm::awaits_proof(&mut world, key, hub);
            let Some(snapshot) = observe(&world, hub) else {
                return Ok(Next::OnEvent);
            };
            let (linger, limit) = (ctx.settings.city_linger, ctx.settings.city_sets_per_project);
            let decision = sets::decided(&world, &snapshot, linger, limit, now);
            let told = sets::note_limit(&mut world, hub, decision.limited);
            world.left_at.want(&hub.into(), decision.wanted.as_ref());
            if decision.left.is_empty() {
                world.left.remove(hub);
            } else {
                world.left.insert(hub.into(), decision.left.clone());
            }
            let condemned: Vec<(Arc<str>, CityCode)> = decision
                .narrowed
                .iter()
                .map(|c| (Arc::from(hub), c.clone()))
                .collect();
            world.condemned.extend(condemned.iter().cloned());
            if let Some(set) = &decision.set {
                world.left_at.intend(&hub.into(), set);
                world
                    .moving
                    .insert(hub.into(), (snapshot.cluster.as_str().into(), set.clone()));
            }
            (decision, condemned, told)
        };
        ctx.queue.extend(told, Urgency::Fresh);
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
            note_set(&mut ctx.world.lock(), hub, false);
            return ctx.heard(key, hub, Ok(decision.plan.next));
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
        let room = sets::arrived(&mut ctx.world.lock(), hub, result.is_ok());
        ctx.queue.extend(room, Urgency::Fresh);
        ctx.lift_ban(hub, &condemned);
        ctx.heard(key, hub, result)?;
        note_set(&mut ctx.world.lock(), hub, true);
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
