//! Projector: a cell's Instance on the hub becomes an Instance in the project, owned by the live deployment.
//!
//! Triggers: write-backs, project deployments, copies, projections and owners of hub namespaces. Contract:
//! federation.md §3.8.

pub mod decide;
pub mod memory;
pub mod triggers;

#[cfg(test)]
mod tests;

use super::{
    confirm,
    context::{Context, Shared},
    index::{GatewayIndex, TableId},
};
use crate::gateway::queries::instances;
use decide::{Decision, Reporting, Snapshot, Verdict};
use fedgate_api::names::HubNamespace;
use fedgate_engine::random::HashMap;
use fedgate_engine::runtime::context::MAX_PASSES;
use fedgate_engine::{
    error::{Failure, Retry},
    key::{Key, Plane},
    metrics::Stage,
    plan::{Applied, Endpoint, Event, ObjectRef, Plan, Requeue, Target},
    reconcile::{
        quarantine::RETRY_AFTER,
        throttle::{Rate, TokenBucket},
    },
};
use memory::Memory;
use parking_lot::Mutex;

/// The projector and the state that it keeps for each write-back.
#[derive(Debug, Default)]
pub struct Projector {
    memory: Mutex<HashMap<Key, Memory>>,
}

impl Projector {
    /// Drops state that no longer matters: full token buckets, and write-backs in hub namespaces without an owner.
    /// Called every few seconds.
    pub fn prune(&self, ctx: &Shared, index: &GatewayIndex) {
        let now = ctx.now().instant;
        self.memory.lock().retain(|key, m| {
            if m.updates.is_full(now) {
                m.updates = TokenBucket::default();
            }
            *m != Memory::default() && index.owners.contains_key(&key.namespace)
        });
    }

    /// Number of write-backs with state.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.memory.lock().len()
    }

    /// Reconciles the key of a write-back.
    pub async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let mut memory = self.memory.lock().remove(key).unwrap_or_default();
        let result = reconcile_once(ctx, key, &mut memory).await;
        if memory != Memory::default() {
            self.memory.lock().insert(key.clone(), memory);
        }
        result
    }
}

fn settings(ctx: &Shared) -> decide::Settings {
    decide::Settings {
        projection_retention: ctx.settings.projection_retention,
        require_owner: ctx.settings.require_owner,
        status_interval: ctx.settings.status_interval,
    }
}

async fn reconcile_once(ctx: &Context<'_>, key: &Key, memory: &mut Memory) -> Result<Requeue, Failure> {
    for _ in 0..MAX_PASSES {
        // The guard must end before the index is locked again.
        let snapshot = {
            let mut index = ctx.index.lock();
            confirm::awaits_proof(&mut index, key, &key.namespace);
            observe(&index, key)
        };
        let Some(snapshot) = snapshot else {
            *memory = Memory::default();
            ctx.index.lock().drop_write_back(key);
            return Ok(Requeue::AwaitChange);
        };
        let decision = decide::decide(&snapshot, memory, settings(ctx), ctx.now());
        if matches!(decision, Decision::Confirm(_))
            && !confirm::is_absent(ctx, &written_back(&snapshot)).await?
        {
            return Ok(Requeue::AwaitChange);
        }
        match decision {
            Decision::Wait => {
                drop_body(ctx, &snapshot);
                ctx.quarantine.release(key);
                return Ok(Requeue::AwaitChange);
            }
            Decision::WaitFor(wait) => {
                drop_body(ctx, &snapshot);
                ctx.quarantine.release(key);
                return Ok(Requeue::After(wait));
            }
            Decision::Later(wait) => {
                ctx.quarantine.release(key);
                return Ok(Requeue::After(wait));
            }
            Decision::Quarantine(verdict) => return Ok(quarantine(ctx, key, &snapshot, verdict).await),
            Decision::Read => {
                let target = written_back(&snapshot);
                let kind = snapshot.kind;
                if !ctx
                    .read_body(&target, |w, object| w.hub.write_backs[kind].keep_body(object))
                    .await?
                {
                    return Ok(Requeue::AwaitChange);
                }
            }
            Decision::Do(plan) if plan.is_idle() => {
                ctx.quarantine.release(key);
                drop_body(ctx, &snapshot);
                return Ok(plan.next);
            }
            Decision::Do(plan) | Decision::Confirm(plan) => {
                let reason = plan.effects.first().map_or("", |e| e.reason);
                let endpoints: Vec<Endpoint> = plan.effects.iter().map(|e| e.endpoint).collect();
                match ctx.execute(plan).await {
                    Err(failure) if failure.retry() == Retry::Quarantine => {
                        let verdict = Verdict {
                            reason: failure.category.as_str(),
                            message: failure.to_string(),
                        };
                        return Ok(quarantine(ctx, key, &snapshot, verdict).await);
                    }
                    result => settle(ctx, key, &snapshot, &endpoints, memory, &result?),
                }
                ctx.quarantine.release(key);
                ctx.record_stage(Stage::WritebackToProjection, ctx.enqueued_at);
                tracing::info!(plane = %snapshot.plane(), controller = "projector", %key, reason, "Instance projected");
            }
        }
    }
    Ok(Requeue::AwaitChange)
}

/// The write-back's object on the hub.
fn written_back(s: &Snapshot) -> Target {
    Target::namespaced(Plane::Hub, &s.rules().resource, s.hub.as_str(), &s.name)
}

/// Records that the project's API server answered with something other than what was applied.
fn settle(
    ctx: &Context<'_>,
    key: &Key,
    before: &Snapshot,
    written: &[Endpoint],
    memory: &mut Memory,
    applied: &Plan<Applied>,
) {
    if before.write_back.is_some() && before.projection.is_some() {
        let rate = Rate::new(ctx.settings.status_interval);
        memory.updates.take(rate, ctx.now().instant);
    }
    let after = observe(&ctx.index.lock(), key).and_then(|s| s.projection);
    let (Some(asked), Some(got)) = (&before.write_back, after) else {
        return;
    };
    if !applied.produced_version(&got.resource_version()) {
        return;
    }
    for endpoint in written {
        memory.settle(*endpoint == Endpoint::Status, &asked.digest, &got.digest);
    }
}

/// Reports a verdict once: a log line and, if the project is beyond doubt, an Event.
async fn quarantine(ctx: &Context<'_>, key: &Key, s: &Snapshot, verdict: Verdict) -> Requeue {
    drop_body(ctx, s);
    let next = Requeue::After(RETRY_AFTER);
    if !ctx.quarantine.insert(key, verdict.reason) {
        return next;
    }
    if verdict.reason == "identity_mismatch" {
        ctx.metrics.identity_rejected(verdict.reason);
    }
    tracing::warn!(plane = "hub", controller = "projector", %key, reason = verdict.reason, message = verdict.message, "write-back quarantined");
    let (Some(source), true) = (&s.source, verdict.reason != "identity_mismatch") else {
        return next;
    };
    let note = Event {
        plane: s.plane(),
        about: ObjectRef {
            api_version: s.profile().resource.api_version.clone(),
            kind: s.profile().resource.kind.clone(),
            namespace: s.namespace.to_string(),
            name: s.deployment().unwrap_or_default().to_owned(),
            uid: source.uid.to_string(),
        },
        warning: true,
        reason: format!("Quarantined{}", camel(verdict.reason)),
        action: "QuarantiningProjection".to_owned(),
        message: verdict.message,
    };
    let mut plan = Plan::default();
    plan.notes.push(note);
    if let Err(error) = ctx.execute(plan).await {
        tracing::debug!(%error, "event not published");
    }
    next
}

fn camel(reason: &str) -> String {
    reason
        .split('_')
        .map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .map(|c| c.to_ascii_uppercase())
                .into_iter()
                .chain(letters)
                .collect::<String>()
        })
        .collect()
}

fn drop_body(ctx: &Context<'_>, s: &Snapshot) {
    ctx.index.lock().hub.write_backs[s.kind].drop_body(s.hub.as_str(), &s.name);
}

/// Reports of the cells on the deployment that owns the projection of a write-back.
fn reporting(index: &GatewayIndex, key: &Key, kind: usize) -> Reporting {
    let found = index.owners.get(&key.namespace).and_then(|owner| {
        let project = index.projects.get(&owner.project)?;
        let projection = project.projections[kind].get(&owner.namespace, &key.name)?;
        let (name, uid) = projection.digest.owner.clone()?;
        let source = project.sources[kind].get(&owner.namespace, &name);
        Some((source.is_some_and(|s| s.uid == uid && !s.deleting), name))
    });
    let Some((true, name)) = found else {
        return Reporting::Given;
    };
    let copy = index.hub.copies[kind].get(&key.namespace, &name);
    let withheld = index.hub.withheld.get(&(kind, key.namespace.clone(), name));
    match (withheld, copy) {
        (Some(since), _) => Reporting::Awaited(Some(*since)),
        (None, Some(copy)) if copy.digest.reports() => Reporting::Given,
        (None, _) => Reporting::Awaited(None),
    }
}

/// Takes the snapshot; `None` while the hub namespace has no owner or the lists that the snapshot depends on are
/// incomplete.
pub fn observe(index: &GatewayIndex, key: &Key) -> Option<Snapshot> {
    let Some(TableId::WrittenBack(kind)) = index.table_of_kind(&key.kind) else {
        return None;
    };
    let owner = index.owners.get(&key.namespace)?;
    if !index.hub_ready() || !index.project_ready(&owner.project) {
        return None;
    }
    let project = index.projects.get(&owner.project)?;
    let hub = HubNamespace::parse(&key.namespace)?;
    // The ownership holds only if the Namespace on the hub names this project too.
    let bound = index
        .hub
        .namespaces
        .get("", hub.as_str())
        .is_some_and(|n| n.digest.project_uid.is_some() && n.digest.project_uid == project.uid);
    let write_back = index.hub.write_backs[kind]
        .get(&key.namespace, &key.name)
        .cloned();
    let deployment = write_back.as_ref().and_then(|w| w.digest.deployment.clone());
    let name = deployment.as_deref();
    let copy = name.and_then(|d| index.hub.copies[kind].get(&key.namespace, d));
    let binding = name.and_then(|d| index.binding(kind, &key.namespace, d));
    let source = name.and_then(|d| project.sources[kind].get(&owner.namespace, d));
    // The binding of an earlier copy does not count.
    let cells = binding.filter(|b| copy.is_some_and(|copy| b.digest.owner.as_ref() == Some(&copy.uid)));
    Some(Snapshot {
        kinds: index.kinds.clone(),
        kind,
        project: owner.project.clone(),
        namespace: owner.namespace.clone(),
        hub,
        name: key.name.clone(),
        bound,
        copy: copy.cloned(),
        cells: cells.map_or_else(Box::default, |binding| binding.digest.clusters.clone()),
        source: source.cloned(),
        ended: index
            .hub
            .ended
            .contains(&(kind, key.namespace.clone(), key.name.clone())),
        proven: index.lacks_proof(&key.namespace).is_none(),
        reporting: reporting(index, key, kind),
        projection: project.projections[kind]
            .get(&owner.namespace, &key.name)
            .cloned(),
        rank: index.rank(kind, &key.namespace, &key.name),
        most: source.map_or(0, instances::instance_limit),
        write_back,
    })
}
