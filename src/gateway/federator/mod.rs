//! Federator: syncs a project's deployment to a copy on the hub and returns the copy's status.
//!
//! Triggers: the deployment, its copy and binding, the hub Namespace and city policies, and its references
//! (`index::triggers`). After a start specs are synced before all lists are complete (`index::readiness`).
//! Contract: federation.md §3.4.

mod arrival;
pub mod conditions;
pub mod decide;
pub mod memory;
pub mod observe;
mod render;
pub mod triggers;

#[cfg(test)]
mod tests;

use super::{
    context::{Context, Shared},
    hub_permit::HubPermit,
    index::GatewayIndex,
};
use decide::{Action, Settings, source_target};
use fedgate_api::names::ProjectKey;
use fedgate_engine::random::HashMap;
use fedgate_engine::runtime::context::MAX_PASSES;
use fedgate_engine::{
    error::{Category, Failure, Retry},
    key::{Key, Plane},
    metrics::Stage,
    plan::{Applied, Plan, Requeue, Target},
    reconcile::quarantine::RETRY_AFTER,
    shrink::shrink_if_sparse,
};
use memory::Memory;
use observe::Snapshot;
use parking_lot::Mutex;

/// The federator and the state that it keeps for each deployment.
#[derive(Debug, Default)]
pub struct Federator {
    memory: Mutex<HashMap<Key, Memory>>,
}

impl Federator {
    /// Reconciles the key of a deployment.
    pub async fn reconcile(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        project: &ProjectKey,
    ) -> Result<Requeue, Failure> {
        let settings = Settings {
            status_interval: ctx.settings.status_interval,
            release_after: ctx.settings.release_after,
        };
        let mut memory = self.memory.lock().remove(key).unwrap_or_default();
        let result = reconcile_once(ctx, key, project, &settings, &mut memory).await;
        if memory != Memory::default() {
            self.memory.lock().insert(key.clone(), memory);
        }
        result
    }

    /// Number of deployments with state.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.memory.lock().len()
    }

    /// Drops state that no longer matters, above all that of projects that were removed; called every few seconds.
    pub fn prune(&self, ctx: &Shared, index: &GatewayIndex) {
        let now = ctx.now();
        let mut memories = self.memory.lock();
        memories.retain(|key, m| {
            if matches!(&key.plane, Plane::Project(project) if !index.projects.contains_key(project)) {
                return false;
            }
            let Memory {
                undelivered,
                unresolved,
                carrying,
                unreported,
                true_since,
                claim_mismatch_since,
                claim_repaired,
                status_writes,
                status_settled,
                settled,
                refused,
                bound,
            } = m;
            let waits = [
                *undelivered,
                *unresolved,
                *carrying,
                *unreported,
                *true_since,
                *claim_mismatch_since,
            ]
            .iter()
            .any(Option::is_some);
            let recent = claim_repaired.is_some_and(|at| now.since(at) < RETRY_AFTER)
                || !status_writes.is_full(now.instant);
            waits || recent || *bound || refused.is_some() || status_settled.is_some() || settled.is_some()
        });
        shrink_if_sparse(&mut memories);
    }
}

async fn reconcile_once(
    ctx: &Context<'_>,
    key: &Key,
    project: &ProjectKey,
    settings: &Settings,
    memory: &mut Memory,
) -> Result<Requeue, Failure> {
    let mut permit = HubPermit::new(&ctx.rate_limiter, &ctx.clock, project, key);
    for _ in 0..MAX_PASSES {
        let snapshot = {
            let mut index = ctx.index.lock();
            let Some(snapshot) = observe::observe(&index, key, project) else {
                index.drop_source(key, project);
                return Ok(Requeue::AwaitChange);
            };
            arrival::note_seen(&mut index, &snapshot);
            if snapshot.cell_unproven {
                index.await_proof(Plane::Hub, key);
            }
            snapshot
        };
        if snapshot.complete {
            quarantine(ctx, key, &snapshot).await;
        }
        let now = ctx.now();
        let mut decision = decide::decide(&snapshot, memory, settings, permit.state(), now);
        if let Action::Permit(class) = decision.action {
            let state = permit.ask(class);
            decision = decide::decide(&snapshot, memory, settings, state, now);
        }
        let before = std::mem::replace(memory, decision.memory.observed);
        if matches!(decision.action, Action::Confirm(_)) && !is_as_seen(ctx, &snapshot).await? {
            // The object that was read instead has enqueued the key.
            return Ok(Requeue::AwaitChange);
        }
        match decision.action {
            Action::Read { source, copy } => {
                if !read(ctx, &snapshot, source, copy).await? {
                    // An object that was deleted meanwhile triggers its own event.
                    return Ok(Requeue::AwaitChange);
                }
            }
            Action::ConfirmGone => {
                if !arrival::is_gone(ctx, &snapshot).await? {
                    // Its event may have arrived and been superseded by its deletion.
                    return Ok(Requeue::After(memory::GRACE_PERIOD));
                }
                memory.bound = true;
            }
            // The write was requested a moment ago: the object exists now, or its event has to be awaited.
            Action::Permit(_) => return Ok(Requeue::AwaitChange),
            Action::Apply(plan) | Action::Confirm(plan) => {
                if plan.is_idle() {
                    drop_bodies(ctx, &snapshot);
                    if !snapshot
                        .source
                        .as_ref()
                        .is_some_and(|source| memory.refuses(source))
                    {
                        ctx.quarantine.lift(key, Category::Refused.as_str());
                    }
                    return Ok(plan.next);
                }
                let wrote = plan.effects.first().map(|e| (e.reason, e.target.plane.clone()));
                if !arrival::note_sent(ctx, &snapshot, &plan) {
                    return Ok(Requeue::AwaitChange);
                }
                let result = ctx.execute(plan).await;
                arrival::note_outcome(ctx, &snapshot, result.as_ref().err());
                let applied = match result {
                    Ok(applied) => applied,
                    Err(failure) if failure.category == Category::NotLeader => {
                        // A new leader reads the objects itself.
                        *memory = before;
                        return Err(failure);
                    }
                    Err(failure) => {
                        refused(ctx, key, &snapshot, memory, failure)?;
                        continue;
                    }
                };
                *memory = decision.memory.applied;
                if wrote
                    .as_ref()
                    .is_some_and(|(reason, _)| decide::WRITES.contains(reason))
                {
                    permit.used();
                }
                if let Some((reason, plane)) = wrote {
                    tracing::info!(plane = %plane, controller = "federator", %key, reason, "deployment federated");
                    record_stage(ctx, &snapshot, memory, reason);
                    settle(ctx, key, &snapshot, memory, reason, &applied);
                }
            }
        }
    }
    Ok(Requeue::AwaitChange)
}

/// Verdict on a deployment whose status cannot be returned.
const TOO_LARGE: &str = "too_large";

/// Reports a status that is too large to be returned, once.
async fn quarantine(ctx: &Context<'_>, key: &Key, s: &Snapshot) {
    let Some(note) = conditions::too_large(s) else {
        ctx.quarantine.lift(key, TOO_LARGE);
        return;
    };
    if !ctx.quarantine.insert(key, TOO_LARGE) {
        return;
    }
    tracing::warn!(plane = "hub", controller = "federator", %key, reason = TOO_LARGE, message = note.message, "status quarantined");
    let mut plan = Plan::default();
    plan.notes.push(note);
    if let Err(error) = ctx.execute(plan).await {
        tracing::debug!(%error, "event not published");
    }
}

/// Measures the time between the planes: from the first event to the hub's answer, over all reconciles in between.
fn record_stage(ctx: &Context<'_>, before: &Snapshot, memory: &mut Memory, reason: &str) {
    match reason {
        "announce" => drop(memory.carrying.get_or_insert(ctx.enqueued_at)),
        _ if decide::WRITES.contains(&reason) => {
            let since = memory.carrying.take().unwrap_or(ctx.enqueued_at);
            ctx.record_stage(Stage::ProjectToHub, since);
        }
        "return_status" if before.copy.as_ref().is_some_and(|c| c.digest.status.reported) => {
            ctx.record_stage(Stage::HubStatusToProject, ctx.enqueued_at);
        }
        _ => {}
    }
}

/// Records that an API server answered with something other than what was applied, so that it is not applied
/// forever. The basis is the state that was decided on: a change that has arrived since then has not been applied
/// yet.
fn settle(
    ctx: &Context<'_>,
    key: &Key,
    before: &Snapshot,
    memory: &mut Memory,
    reason: &str,
    applied: &Plan<Applied>,
) {
    let Some(after) = observe::observe(&ctx.index.lock(), key, &before.project) else {
        return;
    };
    match (reason, &before.source, &before.copy, &after.source, &after.copy) {
        ("create_copy" | "update_copy" | "move_copy", Some(asked), _, _, Some(got))
            if applied.produced_version(&got.resource_version())
                && asked.digest.content != got.digest.content =>
        {
            memory.settled = Some((asked.digest.content, got.digest.content));
        }
        ("return_status", _, Some(asked), Some(got), _)
            if applied.produced_version(&got.resource_version())
                && !got.digest.status.is_returned(
                    &asked.digest.status,
                    &before.profile().status.own_conditions,
                    got.digest.generation,
                ) =>
        {
            memory.status_settled = Some(decide::settlement(asked, got));
        }
        _ => {}
    }
}

/// True if the project's API server confirms that its object is the one in the index.
async fn is_as_seen(ctx: &Context<'_>, s: &Snapshot) -> Result<bool, Failure> {
    let Some(source) = &s.source else {
        return Ok(false);
    };
    let found = ctx.executor.refresh(&source_target(s)).await?;
    Ok(found.is_some_and(|found| {
        found.metadata.uid.as_deref() == Some(&*source.uid)
            && found.metadata.generation.unwrap_or(0) == source.digest.generation
    }))
}

async fn read(ctx: &Context<'_>, s: &Snapshot, source: bool, copy: bool) -> Result<bool, Failure> {
    let kind = s.kind;
    let mut there = true;
    if source {
        let target = source_target(s);
        let project = s.project.clone();
        there &= ctx
            .read_body(&target, |index, object| {
                if let Some(p) = index.projects.get_mut(&project) {
                    p.sources[kind].keep_body(object);
                }
            })
            .await?;
    }
    if copy && let Some(hub) = &s.hub {
        let target = Target::namespaced(Plane::Hub, &s.profile().resource, hub.as_str(), &s.name);
        there &= ctx
            .read_body(&target, |index, object| index.hub.copies[kind].keep_body(object))
            .await?;
    }
    Ok(there)
}

fn drop_bodies(ctx: &Context<'_>, s: &Snapshot) {
    let mut index = ctx.index.lock();
    if let Some(p) = index.projects.get_mut(&s.project) {
        p.sources[s.kind].drop_body(&s.namespace, &s.name);
    }
    if let Some(hub) = &s.hub {
        index.hub.copies[s.kind].drop_body(hub.as_str(), &s.name);
    }
}

/// Records a rejection by the hub, so that the project reports it and the write is not repeated; returns any other
/// failure to the queue.
fn refused(
    ctx: &Context<'_>,
    key: &Key,
    s: &Snapshot,
    memory: &mut Memory,
    failure: Failure,
) -> Result<(), Failure> {
    let Some(source) = s
        .source
        .as_ref()
        .filter(|_| failure.plane == Plane::Hub && failure.retry() == Retry::Quarantine)
    else {
        return Err(failure);
    };
    memory.refuse(source, &failure.message, ctx.now());
    let category = failure.category.as_str();
    if ctx.quarantine.insert_until_released(key, category) {
        tracing::warn!(%key, category, error = %failure, "object refused; it is retried when it changes, or in 5 min");
    }
    Ok(())
}
