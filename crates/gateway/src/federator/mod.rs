//! Federator: syncs a project's deployment to a copy on the hub and returns the copy's status.
//!
//! A deployment is enqueued by changes of itself, its copy, its binding, the hub Namespace, a city policy and the objects that it
//! references (`crate::triggers`). After a start specs are synced before all lists are complete (`index::derived::readiness`).
//! Contract: federation.md §3.4.

mod arrival;
pub mod conditions;
pub mod decide;
pub mod delay;
pub mod destination;
pub mod events;
pub mod memory;
pub mod observe;
pub mod pauses;
mod render;
mod stored;

#[cfg(test)]
mod tests;

use super::{
    context::{Context, Shared, State, publish},
    hub_permit::HubPermit,
    index::{GatewayIndex, derived::project_hub::NamedHub, single_member::DeliveryPolicy},
    reason::{Verdict, WriteReason},
    single_member::{
        self, Observation, Probe,
        probe::{Subject, Watches},
    },
};
use decide::{CopyStep, source_target};
use delay::Delays;
use fedgate_engine::{
    error::{Category, Failure},
    key::{Key, Plane},
    message::clean,
    metrics::{Family, Stage},
    plan::{Applied, Event, Plan, Prepared, Requeue, Target},
    reconcile::{
        memory::Memories,
        throttle::{RETRY_AFTER, TokenBucket},
    },
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use fedgate_operations::Stage as OnTheWay;
use kube::core::DynamicObject;
use memory::Memory;
use observe::Snapshot;

/// The federator and the state that it keeps for each deployment.
#[derive(Debug, Default)]
pub struct Federator {
    memory: Memories<Memory>,
    /// The deployments that may tell their tenants that they wait.
    pub delays: Delays,
    /// Watches of Works and of objects at members whose end is awaited.
    watches: Watches,
}

impl Federator {
    /// Number of deployments with state.
    #[cfg(test)]
    pub(crate) fn entry_count(&self) -> usize {
        self.memory.len()
    }

    /// Drops state that no longer matters, above all that of projects that were removed; called every few seconds.
    pub fn prune(&self, ctx: &Shared, index: &GatewayIndex) {
        let now = ctx.now();
        self.memory.retain(|key, memory| {
            if memory.status_writes.is_full(now.instant) {
                memory.status_writes = TokenBucket::default();
            }
            memory.claim_repaired.take_if(|at| now.since(*at) >= RETRY_AFTER);
            memory.pruned.take_if(|at| now.since(*at) >= RETRY_AFTER);
            !matches!(&key.plane, Plane::Project(project) if !index.projects.contains_key(project))
        });
    }
}

impl Federator {
    /// Asks Karmada or the member of an object. A watch reports the end of the Works and objects that were found.
    async fn probe(
        &self,
        run: &Reconcile<'_, Self>,
        s: &Snapshot,
        probe: &Probe,
    ) -> Result<Observation, Failure> {
        let binding = run.ctx.index.lock().binding_name(s.kind, &s.name);
        let subject = Subject {
            resource: &s.profile().resource,
            namespace: s.hub.as_ref().map_or("", |hub| hub.as_str()),
            name: &s.name,
            binding: &binding,
            guards: &s.profile().deletion.guards,
        };
        self.watches.probe(run.ctx, run.key, subject, probe).await
    }
}

/// State of a deployment's reconcile.
#[derive(Debug, Default)]
pub struct Session {
    memory: Memory,
    /// The memory before the last decision.
    before: Memory,
    permit: Option<HubPermit>,
}

impl Session {
    /// The delivery policy that the copy of an object that lives at one member is to have.
    fn policy(&self) -> Option<&DeliveryPolicy> {
        self.memory.member.policy.as_ref()
    }
}

/// A snapshot, and the step that was decided on it. The plan of the step is with the driver.
#[derive(Debug)]
pub struct Basis {
    snapshot: Snapshot,
    step: CopyStep,
}

impl Reconciler for Federator {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "federator";

    fn begin(&self, ctx: &Context<'_>, key: &Key) -> Session {
        let permit = match &key.plane {
            Plane::Project(project) => Some(HubPermit::new(ctx, project, key)),
            Plane::Hub | Plane::Cell | Plane::Home => None,
        };
        Session {
            memory: self.memory.take(key),
            before: Memory::default(),
            permit,
        }
    }

    fn end(&self, _: &Context<'_>, key: &Key, session: Session) {
        self.memory.put(key, session.memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let (Plane::Project(project), Some(permit)) = (&run.key.plane, &mut run.session.permit) else {
            return Step::End(Requeue::AwaitChange);
        };
        let mut index = run.ctx.index.lock();
        let Some(mut snapshot) = observe::observe(&index, run.key, project) else {
            index.drop_source(run.key, project);
            return Step::End(Requeue::AwaitChange);
        };
        let needs = arrival::note_seen(&mut index, &snapshot);
        if snapshot.lacks_clusters() {
            index.await_proof(Plane::Hub, run.key);
        }
        drop(index);
        run.ctx.queue.extend(needs, Priority::Fresh);
        if snapshot.source.is_none() || snapshot.hub_reference.named == NamedHub::Other {
            arrival::note_unwanted(run.ctx, &snapshot);
        }
        let (memory, now) = (&mut run.session.memory, run.ctx.now());
        if snapshot.complete
            && snapshot.hub_reference.named != NamedHub::Other
            && let Some(event) = quarantine(run.ctx, run.key, &snapshot)
        {
            let plan = Plan::with_event(event);
            let step = CopyStep::Act(Box::new(decide::Act::new(Plan::default(), memory.clone())));
            return Step::Apply(plan, Basis { snapshot, step });
        }
        snapshot.delay = self.delays.of(run.ctx, run.key);
        let (settings, before) = (&run.ctx.settings, memory.clone());
        let mut step = decide::decide(&snapshot, memory, settings, permit.state(), now);
        if let CopyStep::Permit(class) = step {
            let state = permit.ask(class);
            memory.clone_from(&before);
            step = decide::decide(&snapshot, memory, settings, state, now);
        }
        run.session.before = before;
        if let Some(hub) = snapshot.hub.as_ref().filter(|_| snapshot.single_member.is_some()) {
            let mut index = run.ctx.index.lock();
            let (hub, policy) = (hub.as_str().into(), run.session.policy());
            let policies = single_member::request_policy(&mut index, &hub, run.key, policy);
            drop(index);
            run.ctx.queue.extend(policies, Priority::Fresh);
        }
        match step {
            CopyStep::Wait(next) => {
                let step = CopyStep::Wait(next);
                Step::Apply(Plan::wait(next), Basis { snapshot, step })
            }
            CopyStep::Act(mut act) => {
                let plan = std::mem::take(&mut act.plan);
                let step = CopyStep::Act(act);
                Step::Apply(plan, Basis { snapshot, step })
            }
            // The permit was asked for above, so that the key waits for an event.
            CopyStep::Permit(_) => Step::End(Requeue::AwaitChange),
            step => Step::Read(Basis { snapshot, step }),
        }
    }

    async fn read(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, step }: &Basis,
    ) -> Result<Flow, Failure> {
        match step {
            CopyStep::Read { source, copy } => {
                if !read(run.ctx, snapshot, *source, *copy).await? {
                    // An object that was deleted meanwhile triggers its own event.
                    return Ok(Flow::End(Requeue::AwaitChange));
                }
            }
            CopyStep::ConfirmGone => {
                if !arrival::is_gone(run.ctx, snapshot).await? {
                    // The event of the copy may have arrived, and the event of its deletion after it.
                    return Ok(Flow::End(Requeue::After(memory::GRACE_PERIOD)));
                }
                // A live deployment asks because of a lost answer, and gets another binding with its next copy.
                let source = snapshot.source.as_ref();
                run.session.memory.is_binding_settled = source.is_some_and(|source| source.deleting);
            }
            CopyStep::Probe(probe) => {
                let observation = self.probe(run, snapshot, probe).await?;
                if observation != Observation::HubUser {
                    run.session.memory.member.probing.observation = Some(observation);
                }
            }
            CopyStep::Permit(_) | CopyStep::Act(_) | CopyStep::Wait(_) => {}
        }
        Ok(Flow::Again)
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) {
        drop_bodies(run.ctx, &basis.snapshot);
        end_wait(run.ctx, &basis.snapshot, &run.session.memory);
        let source = basis.snapshot.source.as_ref();
        if !source.is_some_and(|source| run.session.memory.refuses(source)) {
            run.ctx.quarantine.lift(run.key, Category::Refused);
        }
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, step }: &Basis,
        plan: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let needs_get = matches!(step, CopyStep::Act(act) if act.needs_get);
        // The object that was read instead has enqueued the key.
        let differs = needs_get && !is_as_seen(run.ctx, snapshot).await?;
        let hub = snapshot.hub.as_ref().filter(|_| snapshot.single_member.is_some());
        let is_leaving = hub.zip(run.session.policy()).is_some_and(|(hub, policy)| {
            !single_member::may_be_given(run.ctx, &hub.as_str().into(), run.key, policy)
        });
        let may_be_sent = !differs && !is_leaving && arrival::note_sent(run.ctx, snapshot, plan);
        Ok(Flow::go_if(may_be_sent))
    }

    fn executed(
        &self,
        run: &mut Reconcile<'_, Self>,
        Basis { snapshot, step }: &Basis,
        plan: &Plan<Applied>,
    ) -> Flow {
        arrival::note_arrived(run.ctx, snapshot, plan);
        if let CopyStep::Act(act) = step {
            run.session.memory.clone_from(&act.applied);
        }
        if snapshot.delay.is_some() {
            self.delays.written(run.key, run.ctx.now());
        }
        let first = plan.effects.first();
        let reason = first.and_then(|effect| WriteReason::of(effect.reason));
        if reason == Some(WriteReason::AbandonMember) {
            run.ctx.metrics.count(Family::MembersAbandoned, &[]);
        }
        if let Some(outcome) = reason.and_then(MoveOutcome::of) {
            record_move(run.ctx, snapshot, outcome);
        }
        if reason.is_some_and(|reason| decide::WRITES.contains(&reason))
            && let Some(permit) = &mut run.session.permit
        {
            permit.used();
        }
        record_stage(run.ctx, snapshot, &mut run.session.memory, reason);
        stored::record_stored(run.ctx, run.key, snapshot, &mut run.session.memory, reason, plan);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        let is_spec = matches!(&basis.step, CopyStep::Act(act) if act.carries_spec);
        if is_spec && failure.category == Category::AlreadyExists {
            // The index does not show the copy yet, for example because the answer to its creation was lost.
            let target = decide::copy_target(&basis.snapshot);
            run.ctx.executor.refresh(&target, |_| ()).await?;
            return Ok(Flow::Again);
        }
        arrival::note_failed(run.ctx, &basis.snapshot, &failure);
        if failure.category == Category::NotLeader {
            // A new leader reads the objects itself.
            run.session.memory = std::mem::take(&mut run.session.before);
            return Err(failure);
        }
        if let (Some(source), Some(copy)) = (&basis.snapshot.source, &basis.snapshot.copy)
            && basis.snapshot.single_member.is_some()
            && is_refused_status(&failure)
        {
            let (memory, now) = (&mut run.session.memory, run.ctx.now());
            // The status was refused before, and was not in this write: the project has refused the conditions alone.
            if memory.status_refusal(source, copy, now).is_some() {
                return Err(failure);
            }
            memory.refuse_status(source, copy, &failure.message, now);
            return Ok(Flow::Again);
        }
        report_failed_pause(run, &basis.snapshot, &failure).await;
        let is_mark = decide::unmarked(&basis.snapshot).is_some() && failure.plane == Plane::Hub;
        let is_binding = failure.plane == Plane::Hub && failure.object.starts_with("resourcebindings ");
        if failure.category == Category::ProjectSuspended || is_mark || is_binding {
            // The failure says nothing of the deployment, and no body is stored for a write that waits.
            drop_bodies(run.ctx, &basis.snapshot);
            return Err(failure);
        }
        refused(
            run.ctx,
            run.key,
            &basis.snapshot,
            &mut run.session.memory,
            is_spec,
            failure,
        )?;
        Ok(Flow::Again)
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("deployment federated")
    }
}

/// True if the project has refused a status: a plan writes nothing else to the project.
fn is_refused_status(failure: &Failure) -> bool {
    matches!(failure.plane, Plane::Project(_))
        && failure.verb == "apply"
        && failure.category == Category::Refused
}

/// Tells the tenant, once, that its deployment is not suspended yet.
async fn report_failed_pause(run: &mut Reconcile<'_, Federator>, s: &Snapshot, failure: &Failure) {
    let event = pauses::failed(s, failure).filter(|_| !run.session.memory.pause_failed);
    let Some(event) = event else { return };
    run.session.memory.pause_failed = true;
    publish(run.ctx, event).await;
}

/// Ends the wait for a status that the project's server stores in another form than the gateway sent.
fn end_wait(ctx: &Context<'_>, s: &Snapshot, memory: &Memory) {
    let (Some(source), Some(copy), Some(object)) = (&s.source, &s.copy, s.copy_ref()) else {
        return;
    };
    let (hub, project) = decide::status_digests(copy, source);
    if memory.status.accepts(hub, project) {
        ctx.index.lock().end_wait(OnTheWay::HubStatusToProject, &object);
    }
}

/// Quarantines a status that is too large to be returned; returns the Event that reports it, once.
fn quarantine(ctx: &Context<'_>, key: &Key, s: &Snapshot) -> Option<Event> {
    let Some(event) = events::too_large(s) else {
        ctx.quarantine.lift(key, Verdict::TooLarge);
        return None;
    };
    if !ctx.quarantine.insert(key, Verdict::TooLarge) {
        return None;
    }
    let (namespace, name) = (&*key.namespace, &*key.name);
    tracing::warn!(plane = "hub", controller = "federator", kind = %key.kind, namespace, name, %key, reason = Verdict::TooLarge.label(), detail = event.message, "status quarantined");
    // An object that lives at one member gets the Event of its condition instead.
    Some(event).filter(|_| s.single_member.is_none())
}

fedgate_engine::words! {
    /// End of a move from cell to cell: label `outcome` of `fedgate_cell_moves_total`.
    enum MoveOutcome {
        /// The deployment runs at the other cell.
        Completed = "completed",
        /// The deployment stays at its cell.
        Cancelled = "cancelled",
    }
}

impl MoveOutcome {
    /// The outcome of a write that ends a move.
    fn of(reason: WriteReason) -> Option<Self> {
        match reason {
            WriteReason::EndMove => Some(Self::Completed),
            WriteReason::CancelMove => Some(Self::Cancelled),
            _ => None,
        }
    }
}

/// Records how a move has ended, under the lock under which the next one is planned.
fn record_move(ctx: &Context<'_>, s: &Snapshot, outcome: MoveOutcome) {
    let (Some(object), Some(moving)) = (s.copy_ref(), &s.cells.moving) else {
        return;
    };
    // A move that ends because the copy or the former cell is in another city has no outcome.
    if !moving.is_misplaced {
        ctx.metrics.count(Family::CellMoves, &[outcome.as_str()]);
    }
    let mut index = ctx.index.lock();
    let moves = &mut index.intents.moves;
    match outcome {
        MoveOutcome::Completed => moves.complete(&object),
        MoveOutcome::Cancelled => moves.cancel(&object, moving.to.as_ref(), ctx.now()),
    }
    let key = index.moves_key();
    drop(index);
    ctx.queue.add(key, Priority::Fresh);
}

/// Measures the time between the planes: from the first event to the hub's answer, over all reconciles in between.
fn record_stage(ctx: &Context<'_>, before: &Snapshot, memory: &mut Memory, reason: Option<WriteReason>) {
    match reason {
        Some(WriteReason::Announce) => drop(memory.carrying.get_or_insert(ctx.enqueued_at)),
        Some(reason) if decide::WRITES.contains(&reason) => {
            let since = memory.carrying.take().unwrap_or(ctx.enqueued_at);
            ctx.record_stage(Stage::ProjectToHub, since);
        }
        Some(WriteReason::ReturnStatus) if before.copy.as_ref().is_some_and(|c| c.digest.status.reported) => {
            ctx.record_stage(Stage::HubStatusToProject, ctx.enqueued_at);
        }
        _ => {}
    }
}

/// True if the project's API server confirms that its object is the one in the index.
async fn is_as_seen(ctx: &Context<'_>, s: &Snapshot) -> Result<bool, Failure> {
    let Some(source) = &s.source else {
        return Ok(false);
    };
    let is_as_seen = |found: &DynamicObject| {
        found.metadata.uid.as_deref() == Some(&*source.uid)
            && found.metadata.generation.unwrap_or(0) == source.digest.generation
    };
    Ok(ctx.executor.refresh(&source_target(s), is_as_seen).await? == Some(true))
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
                    p.sources[kind].store_body(object);
                }
            })
            .await?;
    }
    if copy && let Some(hub) = &s.hub {
        let target = Target::namespaced(Plane::Hub, &s.profile().resource, hub.as_str(), &s.name);
        there &= ctx
            .read_body(&target, |index, object| index.hub.copies[kind].store_body(object))
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
    is_spec: bool,
    failure: Failure,
) -> Result<(), Failure> {
    let Some(source) = s
        .source
        .as_ref()
        .filter(|_| failure.plane == Plane::Hub && failure.category == Category::Refused)
    else {
        return Err(failure);
    };
    memory.refuse(source, is_spec, &failure.message, ctx.now());
    let category = failure.category.as_str();
    if ctx.quarantine.insert_until_released(key, failure.category) {
        let (namespace, name) = (&*key.namespace, &*key.name);
        tracing::warn!(plane = "hub", controller = Federator::NAME, kind = %key.kind, namespace, name, verb = failure.verb, %key, category, error = &*clean(&failure.message), "object refused; it is retried when it changes, or in 5 min");
    }
    Ok(())
}
