//! Namespace delivery: each hub Namespace exists only at the cells of the cities in use (contract: federation.md §3.5).

pub mod decide;
pub mod sets;
pub mod triggers;

#[cfg(test)]
mod tests;

use super::{
    confirm,
    context::{Context, clear_withdrawing, record_refusal},
    index::GatewayIndex,
    queries::lifecycle,
};
use decide::Snapshot;
use fedgate_api::names::{CityCode, city_set};
use fedgate_engine::runtime::context::MAX_PASSES;
use fedgate_engine::{error::Failure, key::Key, plan::Requeue, runtime::queue::Priority};
use std::{collections::BTreeSet, sync::Arc};

/// Quarantine verdict on a Namespace that names another owner.
const FOREIGN: &str = "identity_mismatch";
/// Quarantine verdict on a Namespace whose city set has the name of another city set.
const COLLISION: &str = "city_set_collision";

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
    for i in 0..index.kinds.len() {
        in_use.extend(index.cities_of_kind(i, hub));
    }
    for city in index.hub.secondary.written_back(hub) {
        match city {
            Some(city) => drop(written_back.insert(city.clone())),
            None => unlabelled = true,
        }
    }
    let labelled = row.as_ref().and_then(|r| r.digest.cities.clone());
    let written_set = index.deliveries.at(hub, labelled.as_ref());
    let written_set = written_set.filter(|_| row.is_some()).cloned();
    let set = written_set.or(labelled);
    let all: BTreeSet<CityCode> = in_use.iter().chain(&written_back).cloned().collect();
    let named = |cities: &BTreeSet<CityCode>| city_set(cities).as_deref() == set.as_deref();
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
        left: index.lingering.get(hub).cloned().unwrap_or_default(),
        row,
    })
}

/// Records the city set of a Namespace: the set that this replica has written, or the set found if none is recorded
/// yet.
fn note_set(index: &mut GatewayIndex, hub: &str, written: bool) {
    let row = index.hub.namespaces.get("", hub);
    let set = row.and_then(|row| row.digest.cities.clone());
    index.deliveries.leave(&hub.into(), set.as_ref(), written);
}

/// Reconciles a hub Namespace that belongs to a live project namespace.
pub async fn reconcile(ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
    let hub = &*key.name;
    for _ in 0..MAX_PASSES {
        let now = ctx.now();
        let (decision, withdrawing, told) = {
            let mut index = ctx.index.lock();
            confirm::awaits_proof(&mut index, key, hub);
            let Some(snapshot) = observe(&index, hub) else {
                return Ok(Requeue::AwaitChange);
            };
            let (linger, limit) = (ctx.settings.city_linger, ctx.settings.city_sets_per_project);
            let decision = sets::decided(&index, &snapshot, linger, limit, now);
            let told = sets::note_limit(&mut index, hub, decision.limited);
            index.deliveries.want(&hub.into(), decision.wanted.as_ref());
            if decision.left.is_empty() {
                index.lingering.remove(hub);
            } else {
                index.lingering.insert(hub.into(), decision.left.clone());
            }
            let withdrawing: Vec<(Arc<str>, CityCode)> = decision
                .narrowed
                .iter()
                .map(|c| (Arc::from(hub), c.clone()))
                .collect();
            index.withdrawing.extend(withdrawing.iter().cloned());
            if let Some(set) = &decision.set {
                index.deliveries.record_intended(&hub.into(), set);
                index
                    .moving
                    .insert(hub.into(), (snapshot.cluster.as_str().into(), set.clone()));
            }
            (decision, withdrawing, told)
        };
        ctx.queue.extend(told, Priority::Fresh);
        if decision.foreign {
            if ctx.quarantine.insert(key, FOREIGN) {
                ctx.metrics.identity_rejected(FOREIGN);
                tracing::warn!(
                    plane = "hub",
                    controller = "namespaces",
                    namespace = hub,
                    "the identity labels name another owner; nothing is written until they agree or the object is deleted"
                );
            }
            return Ok(Requeue::AwaitChange);
        }
        if decision.collision {
            if ctx.quarantine.insert(key, COLLISION) {
                tracing::error!(
                    plane = "hub",
                    controller = "namespaces",
                    namespace = hub,
                    "the name of the city set collides with that of another set; the cities are not changed; use another set of cities in one of the two namespaces"
                );
            }
            return Ok(Requeue::AwaitChange);
        }
        ctx.quarantine.release(key);
        if decision.plan.is_idle() {
            note_set(&mut ctx.index.lock(), hub, false);
            return record_refusal(ctx, key, hub, Ok(decision.plan.next));
        }
        if decision.identity_restored {
            ctx.metrics.identity_rejected("namespace_labels_edited");
            tracing::warn!(
                plane = "hub",
                controller = "namespaces",
                namespace = hub,
                "identity labels were edited; they are restored"
            );
        }
        let reasons: Vec<_> = decision
            .plan
            .effects
            .iter()
            .map(|e| format!("{} {}", e.reason, e.target.name))
            .collect();
        let result = ctx.execute(decision.plan).await;
        let room = sets::arrived(&mut ctx.index.lock(), hub, result.is_ok());
        ctx.queue.extend(room, Priority::Fresh);
        clear_withdrawing(ctx, hub, &withdrawing);
        record_refusal(ctx, key, hub, result)?;
        note_set(&mut ctx.index.lock(), hub, true);
        tracing::info!(
            plane = "hub",
            controller = "namespaces",
            namespace = hub,
            changes = reasons.join(", "),
            "hub Namespace changed"
        );
    }
    Ok(Requeue::AwaitChange)
}
