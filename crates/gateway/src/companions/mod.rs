//! Companions: the hub copies of the objects that others reference, with their reference counts (contract: federation.md
//! §3.9, clusters.md §5). Bodies are read just before they are written, and never kept.

pub mod decide;
pub(super) mod memory;
pub mod observe;

#[cfg(test)]
mod tests;

use super::{
    confirm,
    context::{Context, State, record_refusal},
    hub_permit::HubPermit,
    index::{GatewayIndex, TableId, rows},
    queries::lifecycle,
    rate_limit::Permit,
    reason::Verdict,
    single_member::{
        self, Observation, Probe,
        probe::{Subject, Watches, probe_delay},
        referrers::CompanionRef,
    },
};
use decide::{Decision, Snapshot};
use fedgate_api::keys;
use fedgate_engine::{
    error::{Category, Failure},
    key::{Key, Plane},
    plan::{Applied, Plan, Prepared, Requeue, Target},
    reconcile::{memory::Memories, throttle::RETRY_AFTER},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use fedgate_kinds::CompanionKind;
use kube::core::DynamicObject;
use memory::Memory;
use observe::{entries, named, observe};
use std::{collections::BTreeSet, sync::Arc};

/// The companion controller.
#[derive(Debug, Default)]
pub struct Companions {
    memory: Memories<Memory>,
    /// Watches of Works whose end is awaited.
    watches: Watches,
}

/// State of one reconcile of a companion.
#[derive(Debug, Default)]
pub struct Session {
    memory: Memory,
    /// The source, read for the next write only.
    body: Option<DynamicObject>,
    permit: Option<HubPermit>,
    /// The last observation of its Works.
    observation: Option<Observation>,
}

/// A snapshot, and what is read for it.
#[derive(Debug)]
pub struct Basis {
    snapshot: Snapshot,
    probe: Option<Probe>,
}

impl Reconciler for Companions {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "companions";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Session {
        Session {
            memory: self.memory.take(key),
            ..Session::default()
        }
    }

    fn end(&self, _: &Context<'_>, key: &Key, session: Session) {
        self.memory.put(key, session.memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let snapshot = {
            let mut index = run.ctx.index.lock();
            confirm::awaits_proof(&mut index, run.key, &run.key.namespace);
            let kind = index.table_of_kind(&run.key.kind).and_then(TableId::companion);
            let mut snapshot = kind.and_then(|kind| {
                let expired = run.session.memory.expired(run.ctx.now());
                let (hub, name) = (&*run.key.namespace, &*run.key.name);
                observe(&index, CompanionRef { kind, hub, name }, &expired)
            });
            if let Some(snapshot) = &mut snapshot {
                snapshot.observation.clone_from(&run.session.observation);
                snapshot.accepted = run.session.memory.accepted;
            }
            let policies = snapshot
                .as_ref()
                .filter(|_| index.has_pins())
                .and_then(|s| single_member::request_policy(&mut index, &s.hub, run.key, s.policy.as_ref()));
            run.ctx.queue.extend(policies, Priority::Fresh);
            snapshot
        };
        let Some(snapshot) = snapshot else {
            run.session.memory = Memory::default();
            return Step::End(Requeue::AwaitChange);
        };
        let next = run.session.memory.note(&snapshot, run.ctx.now());
        let decision = decide::decide(&snapshot, run.session.body.as_ref());
        if let (Some(class), Some(project)) = (decide::class(&snapshot, &decision), &snapshot.project) {
            let permit = run
                .session
                .permit
                .get_or_insert_with(|| HubPermit::new(run.ctx, project, run.key));
            if let Permit::Wait(wait) = permit.ask(class) {
                return Step::End(Requeue::After(wait));
            }
        }
        let basis = |probe| Basis { snapshot, probe };
        match decision {
            Decision::Read => Step::Read(basis(None)),
            Decision::Probe(probe) => Step::Read(basis(Some(probe))),
            Decision::ProbeAgain => {
                let probes = &mut run.session.memory.probes;
                *probes = probes.saturating_add(1);
                Step::End(Requeue::After(probe_delay(*probes - 1)))
            }
            Decision::Do(plan) if plan.effects.is_empty() => Step::Apply(plan.by(next), basis(None)),
            Decision::Do(plan) => Step::Apply(plan, basis(None)),
        }
    }

    async fn read(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, probe }: &Basis,
    ) -> Result<Flow, Failure> {
        if let Some(probe) = probe {
            let subject = Subject {
                resource: &snapshot.resource,
                namespace: &snapshot.hub,
                name: &snapshot.name,
                binding: "",
                guards: &[],
            };
            let observation = self.watches.probe(run.ctx, run.key, subject, probe).await?;
            run.session.observation = Some(observation);
            return Ok(Flow::Again);
        }
        if let Some(project) = &snapshot.project {
            let plane = Plane::Project(project.clone());
            let target = Target::namespaced(plane, &snapshot.resource, &snapshot.namespace, &snapshot.name);
            run.session.body = run.ctx.executor.get(&target).await?;
        }
        Ok(match run.session.body {
            Some(_) => Flow::Again,
            None => Flow::End(Requeue::AwaitChange),
        })
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, Basis { snapshot, .. }: &Basis) {
        accepted(run.ctx, run.key, snapshot);
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, .. }: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let is_wanted = snapshot.wanted_by.is_empty() && !nobody_wants(run.ctx, run.key, snapshot).await?;
        Ok(Flow::go_if(!is_wanted))
    }

    fn executed(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, .. }: &Basis,
        _: &Plan<Applied>,
    ) -> Flow {
        accepted(run.ctx, run.key, snapshot);
        // The hub may add defaults to the payload: its answer is recorded as the form of the payload that was sent.
        if let (Some(payload), Some(_)) = (&snapshot.payload, run.session.body.take()) {
            let index = run.ctx.index.lock();
            let row = index.hub.companions[snapshot.kind].get(&snapshot.hub, &snapshot.name);
            let stored = row.map(|row| row.digest.payload);
            let stored = stored.filter(|stored| *stored != payload.payload);
            run.session.memory.accepted = stored.map(|stored| (payload.payload, stored));
        }
        if let Some(permit) = &mut run.session.permit {
            permit.used();
        }
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, .. }: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        if failure.category == Category::AlreadyExists {
            return name_held(run.ctx, run.key, snapshot, failure)
                .await
                .map(Flow::End);
        }
        record_refusal(run.ctx, run.key, &run.key.namespace, Some(&failure));
        Err(failure)
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("companion changed")
    }
}

/// Records that the hub has the companion as it is wanted, and forgets rejections and foreign objects.
fn accepted(ctx: &Context<'_>, key: &Key, snapshot: &Snapshot) {
    ctx.quarantine.release(key);
    record_name_taken(ctx, key, snapshot.kind, false);
    record_refusal(ctx, key, &key.namespace, None);
}

/// True if the plane confirms that every listed deployment that is not visible is gone, or the whole project namespace
/// if no owner is known.
async fn nobody_wants(ctx: &Context<'_>, key: &Key, s: &Snapshot) -> Result<bool, Failure> {
    let (origin, unseen) = {
        let index = ctx.index.lock();
        let owned = index.owners.contains_key(&key.namespace);
        let origin = (!owned).then(|| lifecycle::origin_namespace(&index, &key.namespace));
        (origin, unseen(&index, s))
    };
    if let Some(origin) = origin {
        return confirm::namespace_gone(ctx, &key.namespace, &origin).await;
    }
    for target in unseen {
        if !confirm::is_absent(ctx, &target).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The deployments that a companion lists and that are not visible in its project namespace.
fn unseen(index: &GatewayIndex, s: &Snapshot) -> Vec<Target> {
    let Some((key, project)) = s
        .project
        .as_ref()
        .and_then(|key| Some((key, index.projects.get(key)?)))
    else {
        return Vec::new();
    };
    let listed: BTreeSet<String> = entries(s.row.as_ref()).collect();
    let named = listed.iter().filter_map(|entry| named(entry));
    let unseen = named.filter(|(namespace, name)| {
        let mut sources = project.sources.iter();
        **namespace == *s.namespace && sources.all(|sources| sources.get(namespace, name).is_none())
    });
    let targets = unseen.flat_map(|(namespace, name)| {
        let kinds = index.kinds.iter().filter(|kind| kind.companions.is_some());
        kinds
            .map(move |kind| Target::namespaced(Plane::Project(key.clone()), &kind.resource, namespace, name))
    });
    targets.collect()
}

/// Handles a companion's name that is taken: by the companion itself, if the response to its creation was lost, or by
/// an object that fedgate does not manage.
async fn name_held(ctx: &Context<'_>, key: &Key, s: &Snapshot, failure: Failure) -> Result<Requeue, Failure> {
    let target = Target::namespaced(Plane::Hub, &s.resource, &s.hub, &s.name);
    let Some(found) = ctx.executor.get(&target).await? else {
        return Err(failure);
    };
    if rows::label(&found, keys::REFERENCED_DATA) == Some("true") {
        // The watch delivers the companion's event.
        return Ok(Requeue::AwaitChange);
    }
    if ctx.quarantine.insert(key, Verdict::NameTaken) {
        let (namespace, name) = (&*key.namespace, &*key.name);
        tracing::warn!(plane = "hub", controller = "companions", kind = %key.kind, namespace, name, %key, "the name is held by an object without fedgate's label; delete or rename it");
    }
    record_name_taken(ctx, key, s.kind, true);
    Ok(Requeue::After(RETRY_AFTER))
}

/// Records whether another object holds the companion's name, and enqueues the deployments, which report it.
fn record_name_taken(ctx: &Context<'_>, key: &Key, kind: CompanionKind, taken: bool) {
    let mut index = ctx.index.lock();
    let entry = (kind, key.namespace.clone(), key.name.clone());
    let changed = if taken {
        index.intents.name_taken.insert(entry)
    } else {
        index.intents.name_taken.remove(&entry)
    };
    let keys = if changed {
        index.source_keys(&key.namespace)
    } else {
        Vec::new()
    };
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
}

/// Value of the annotation that lists the deployments that reference a companion.
pub(super) fn referenced_by(entries: &BTreeSet<String>) -> Arc<str> {
    serde_json::json!(entries).to_string().into()
}
