//! The built-in provider: runs each Instance as a Pod and exposes its ports by a Service (contract: cell.md §9).
//!
//! Another provider can own Instances instead (`--provider=none`). Providers share state only through the Instance: a
//! provider starts nothing while the Instance has gates, keeps a finalizer of its own while any of its objects run, and
//! writes the conditions Programmed and Available, the applied template hash and the interfaces' addresses. A provider
//! never writes Ready, quota or spec.

mod attached;
pub mod decide;
pub mod lost;
pub mod network_policy;
pub mod observe;
pub mod pod;
pub mod recovery;
pub mod refusal;
pub mod report;
mod retire;
pub mod service;
#[cfg(test)]
mod tests;
pub mod triggers;

use crate::{
    context::{Context, State},
    index::{
        digest::{Strings, controller},
        tables::TableId,
    },
    reason::WriteReason,
};
use decide::PodContext;
use fedgate_engine::{
    error::{Category, Failure},
    key::Key,
    plan::{Applied, Effect, Plan, Requeue, Write},
    reconcile::{memory::Memories, throttle::Throttle},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use kube::ResourceExt;
use observe::PodSnapshot;
use recovery::Observations;
use report::Obstacle;
use tokio::time::Instant;

/// The Pod provider.
#[derive(Debug, Default)]
pub struct Provider {
    memory: Memories<Memory>,
    /// Time of the last progress report to an Instance.
    pub(super) progress: Throttle,
}

/// Observations of an Instance's Pod, by this process's clock, as long as a decision needs them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Deletion time of a Pod that ended, until its successor is created.
    replaced: Option<Instant>,
    /// Container ends, readiness and deletion of the Pod.
    observations: Observations,
}

/// State of a Pod's reconcile.
#[derive(Debug, Default)]
pub struct Session {
    memory: Memory,
    /// Reason why the Pod or another object except the Service cannot be written.
    held: Option<Obstacle>,
    /// Reason why the Service cannot be written.
    service_held: Option<Obstacle>,
    /// The failure of a write, which is returned to the queue once the remaining steps are done.
    refused: Option<Failure>,
}

impl Session {
    /// Ends the reconcile. A requeue time for the Pod takes precedence over the retry of a rejected write.
    fn finish(&mut self, next: Requeue) -> Step<Basis> {
        if next == Requeue::AwaitChange
            && let Some(failure) = self.refused.take()
        {
            return Step::Fail(failure);
        }
        // No event reports that a held name is free again.
        let held = self.held.is_some() || self.service_held.is_some();
        Step::End(if held {
            next.earlier(Requeue::After(recovery::LOOK_AGAIN))
        } else {
            next
        })
    }
}

/// The basis of a plan for a Pod, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    snapshot: PodSnapshot,
    /// Time of the decision.
    now: Instant,
    /// True if the plan reports progress, which is limited.
    progress: bool,
    /// The objects that the plan creates.
    creates: Vec<Effect>,
}

impl Reconciler for Provider {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "provider";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Session {
        Session {
            memory: self.memory.take(key),
            ..Session::default()
        }
    }

    fn end(&self, _: &Context<'_>, key: &Key, session: Session) {
        self.memory.put(key, session.memory);
    }

    /// The key has the name of its Instance.
    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let Some(snapshot) = observe::observe(run.ctx, run.key) else {
            return Step::End(Requeue::AwaitChange);
        };
        let now = run.ctx.now();
        let memory = &mut run.session.memory;
        if snapshot.instance.is_none() {
            memory.replaced = None;
            self.progress.forget(run.key);
        }
        let successor_in = memory.replaced.and_then(|at| {
            let left = recovery::SUCCESSOR_AFTER.saturating_sub(now.since(at));
            (!left.is_zero()).then_some(left)
        });
        memory.observations.record(events(&snapshot), now.instant);
        let around = PodContext {
            settings: &run.ctx.settings,
            successor_in,
            held: run.session.held.as_ref(),
            observations: &run.session.memory.observations,
            service_held: run.session.service_held.as_ref(),
            now,
        };
        let plan = decide::decide(&snapshot, &around);
        if plan.is_idle() {
            return run.session.finish(plan.next);
        }
        let progress = decide::is_progress(&snapshot, &plan);
        if progress {
            let rate = run.ctx.settings.progress_rate();
            if let Some(left) = self.progress.wait_from_empty(run.key, rate, now.instant) {
                return run.session.finish(plan.next.earlier(Requeue::After(left)));
            }
        }
        let creates = plan.effects.iter();
        let creates = creates.filter(|effect| matches!(effect.write, Write::Create { .. }));
        let basis = Basis {
            now: now.instant,
            progress,
            creates: creates.cloned().collect(),
            snapshot,
        };
        Step::Apply(plan, basis)
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, plan: &Plan<Applied>) -> Flow {
        if basis.progress {
            self.progress
                .take(run.key, run.ctx.settings.progress_rate(), basis.now);
        }
        let has = |reason: WriteReason| plan.effects.iter().any(|effect| effect.reason == reason);
        if has(WriteReason::InstanceReport) {
            log_runtime(&basis.snapshot);
        }
        if has(WriteReason::PodReplaced) {
            run.session.memory.replaced = Some(basis.now);
        } else if has(WriteReason::Pod) {
            run.session.memory.replaced = None;
        }
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        let is_taken = failure.category == Category::AlreadyExists;
        let obstacle = if is_taken {
            match holder(run.ctx, basis).await? {
                Some(Holder::Ours(labels)) => {
                    run.ctx.execute(Plan::one(*labels)).await?;
                    return Ok(Flow::Again);
                }
                Some(Holder::Another) => Some(Obstacle::Refused(format!(
                    "{} exists and is not this Instance's; delete or rename it",
                    failure.object
                ))),
                // The Instance's own object exists; its watch event is late.
                None => None,
            }
        } else {
            obstacle(run.ctx, basis, &failure)
        };
        let slot = if refusal::is_of(&failure, TableId::Services) {
            &mut run.session.service_held
        } else {
            &mut run.session.held
        };
        if obstacle.is_none() || slot.is_some() {
            return Err(failure);
        }
        *slot = obstacle;
        // The next pass reports the obstacle and continues with the remaining steps.
        if !is_taken {
            run.session.refused = Some(failure);
        }
        Ok(Flow::Again)
    }
}

/// Events of the Pod: its deletion, and, if it has ended or its Instance has a recovery state to clear, the ends of its
/// containers and its readiness.
fn events(snapshot: &PodSnapshot) -> Vec<String> {
    let Some(pod) = &snapshot.pod else {
        return Vec::new();
    };
    let instance = snapshot.instance.as_ref();
    let has_past = instance.is_some_and(|row| row.digest.recovery.is_some());
    let mut events: Vec<String> = lost::event(pod).into_iter().collect();
    if has_past || pod.digest.has_ended {
        events.extend(recovery::events(&pod.digest.seen()));
    }
    events
}

/// The reason why an object cannot be written; `None` if a retry is enough.
fn obstacle(ctx: &Context<'_>, basis: &Basis, failure: &Failure) -> Option<Obstacle> {
    let is_denied = ctx.executor.missing_right(failure).is_some();
    let refused = refusal::of(failure, is_denied).map(Obstacle::Refused);
    // A Pod that runs is reported whatever becomes of its Service and its NetworkPolicy.
    let attached = [TableId::Services, TableId::NetworkPolicies];
    let delays = basis.snapshot.pod.is_some() && attached.iter().any(|table| refusal::is_of(failure, *table));
    refused.or(delays.then_some(Obstacle::Delayed))
}

/// The owner of a name that the index reported as free. The watch selects the provider's objects by label, so an object
/// without the label is not in the index.
enum Holder {
    /// The Instance's own object, with a patch of the missing labels.
    Ours(Box<Effect>),
    /// Another owner.
    Another,
}

/// Reads the objects under the names of failed creates; `None` if each object is the Instance's and has its labels.
async fn holder(ctx: &Context<'_>, basis: &Basis) -> Result<Option<Holder>, Failure> {
    let instance = basis.snapshot.instance.as_ref().map(|row| &row.uid);
    for effect in &basis.creates {
        let Some(found) = ctx.executor.get(&effect.target).await? else {
            continue;
        };
        if controller(&found, &mut Strings::default()).as_ref() != instance {
            return Ok(Some(Holder::Another));
        }
        let Write::Create { body, .. } = &effect.write else {
            continue;
        };
        let uid = found.uid().unwrap_or_default();
        let has = |key: &str| found.labels().get(key).map(String::as_str);
        if let Some(labels) = attached::relabel(effect.target.clone(), &uid, body, has) {
            return Ok(Some(Holder::Ours(Box::new(labels))));
        }
    }
    Ok(None)
}

/// Logs the runtime's messages about containers that do not start. They name nodes and registries, so tenants must not
/// see them.
fn log_runtime(snapshot: &PodSnapshot) {
    let Some(pod) = &snapshot.pod else { return };
    for (container, reason, message) in report::raw(&pod.digest.seen()) {
        let PodSnapshot { namespace, name, .. } = snapshot;
        tracing::info!(%namespace, %name, container, reason, detail = ?message, "the container does not start");
    }
}
