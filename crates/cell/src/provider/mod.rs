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
pub mod retire;
pub mod service;
#[cfg(test)]
mod tests;
pub mod triggers;

use super::{
    context::{Context, State},
    index::tables::TableId,
};
use crate::reason::WriteReason;
use crate::settings::ProviderSettings;
use decide::PodContext;
use fedgate_engine::{
    error::{Category, Failure},
    key::Key,
    plan::{Applied, Effect, Endpoint, Plan, Requeue, Write},
    random::HashMap,
    reconcile::throttle::Throttle,
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use observe::Snapshot;
use parking_lot::Mutex;
use recovery::Sightings;
use report::Obstacle;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// The Pod provider.
#[derive(Debug, Default)]
pub struct Provider {
    /// Deletion time of Pods that ended, until their successors are created.
    replaced: Mutex<HashMap<Key, Instant>>,
    /// Container ends and readiness of Pods, with the time of their first observation, as long as a decision needs
    /// them.
    sightings: Mutex<HashMap<Key, Sightings>>,
    /// First observation of each Pod's deletion.
    going: lost::Going,
    /// Time of the last progress report to an Instance.
    pub(super) progress: Throttle,
}

/// State of a Pod's reconcile.
#[derive(Debug, Default)]
pub struct Session {
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
    snapshot: Snapshot,
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

    /// The key has the name of its Instance. Without settings no Pod is started.
    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let Some(snapshot) = observe::observe(run.ctx, run.key) else {
            return Step::End(Requeue::AwaitChange);
        };
        if snapshot.instance.is_none() {
            self.replaced.lock().remove(run.key);
            self.progress.forget(run.key);
        }
        let now = run.ctx.now();
        let successor_in = self.replaced.lock().get(run.key).and_then(|at| {
            let left = recovery::SUCCESSOR_AFTER.saturating_sub(now.since(*at));
            (!left.is_zero()).then_some(left)
        });
        let sightings = self.see(run.key, &snapshot, now.instant);
        let settings = run.ctx.settings.provider.as_ref();
        let none = ProviderSettings::default();
        let around = PodContext {
            settings: settings.unwrap_or(&none),
            sizes: &run.ctx.settings.sizes,
            successor_in,
            held: run.session.held.as_ref(),
            sightings: &sightings,
            service_held: run.session.service_held.as_ref(),
            going: self.going.see(run.key, &snapshot, now.instant),
            now,
        };
        let plan = match settings {
            Some(_) => decide::decide(&snapshot, &around),
            None => retire::decide(&snapshot, &around),
        };
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
        let creates = plan.effects.iter().filter(|effect| is_creation(effect));
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
        let mut effects = plan.effects.iter();
        if effects.any(|effect| effect.reason == WriteReason::InstanceReport) {
            log_runtime(&basis.snapshot);
        }
        if plan.effects.iter().any(is_replacement) {
            self.replaced.lock().insert(run.key.clone(), basis.now);
        } else if plan.effects.iter().any(is_pod) {
            self.replaced.lock().remove(run.key);
        }
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        let slot = if refusal::is_of(&failure, TableId::Services) {
            &mut run.session.service_held
        } else {
            &mut run.session.held
        };
        match outcome(run.ctx, run.key, basis, &failure).await? {
            Some(Outcome::Removed) => {}
            Some(Outcome::Stays(why)) if slot.is_none() => {
                *slot = Some(why);
                // The next pass reports the obstacle and continues with the remaining steps.
                if failure.category != Category::AlreadyExists {
                    run.session.refused = Some(failure);
                }
            }
            Some(Outcome::Stays(_)) | None => return Err(failure),
        }
        Ok(Flow::Again)
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        None
    }
}

impl Provider {
    /// Records container ends and readiness of a Pod that has ended, or whose Instance has a recovery state to clear.
    fn see(&self, key: &Key, snapshot: &Snapshot, now: Instant) -> Sightings {
        let has_past = snapshot
            .instance
            .as_ref()
            .is_some_and(|known| known.digest.recovery.is_some());
        let pod = snapshot
            .pod
            .as_ref()
            .filter(|pod| has_past || pod.digest.has_ended);
        let pod: Option<Value> = pod.and_then(|pod| serde_json::from_str(&pod.digest.seen).ok());
        let mut all = self.sightings.lock();
        let mut sightings = all.remove(key).unwrap_or_default();
        sightings.see(pod.as_ref(), now);
        if !sightings.is_empty() {
            all.insert(key.clone(), sightings.clone());
        }
        sightings
    }
}

/// Outcome of handling a failed write.
enum Outcome {
    /// The obstacle is removed.
    Removed,
    /// The obstacle stays.
    Stays(Obstacle),
}

/// Handles a failed write; `None` if a retry is enough.
async fn outcome(
    ctx: &Context<'_>,
    key: &Key,
    basis: &Basis,
    failure: &Failure,
) -> Result<Option<Outcome>, Failure> {
    if failure.category != Category::AlreadyExists {
        let is_denied = ctx.executor.missing_right(failure).is_some();
        let refused = refusal::of(failure, is_denied).map(Obstacle::Refused);
        // A Pod that runs is reported whatever becomes of its Service and its NetworkPolicy.
        let attached = [TableId::Services, TableId::NetworkPolicies];
        let delays =
            basis.snapshot.pod.is_some() && attached.iter().any(|table| refusal::is_of(failure, *table));
        return Ok(refused
            .or(delays.then_some(Obstacle::Delayed))
            .map(Outcome::Stays));
    }
    Ok(match holder(ctx, key, &basis.creates).await? {
        Some(Holder::Ours(labels)) => {
            ctx.execute(Plan::one(*labels)).await?;
            Some(Outcome::Removed)
        }
        Some(Holder::Another) => Some(Outcome::Stays(Obstacle::Refused(format!(
            "{} exists and is not this Instance's; delete or rename it",
            failure.object
        )))),
        // The Instance's own object exists; its watch event is late.
        None => None,
    })
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
async fn holder(ctx: &Context<'_>, key: &Key, made: &[Effect]) -> Result<Option<Holder>, Failure> {
    for effect in made {
        let Some(found) = ctx.executor.get(&effect.target).await? else {
            continue;
        };
        let index = ctx.index.lock();
        let instance = index.instances.get(&key.namespace, &key.name);
        let uid = instance.map(|row| &*row.uid);
        let owners = found.metadata.owner_references.iter().flatten();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        if !controllers.any(|owner| uid == Some(owner.uid.as_str())) {
            return Ok(Some(Holder::Another));
        }
        let Write::Create { body } = &effect.write else {
            continue;
        };
        let has = found.metadata.labels.unwrap_or_default();
        let wanted = body["metadata"]["labels"].as_object().into_iter().flatten();
        let lacking = wanted.filter(|(key, value)| has.get(*key).map(String::as_str) != value.as_str());
        let lacking: Map<String, Value> = lacking.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !lacking.is_empty() {
            let patch = json!({"metadata": {"uid": found.metadata.uid, "labels": lacking}});
            return Ok(Some(Holder::Ours(Box::new(Effect {
                target: effect.target.clone(),
                endpoint: Endpoint::Main,
                write: Write::Merge { patch },
                reason: WriteReason::ProviderLabels.into(),
            }))));
        }
    }
    Ok(None)
}

/// Logs the runtime's messages about containers that do not start. They name nodes and registries, so tenants must not
/// see them.
fn log_runtime(snapshot: &Snapshot) {
    let Some(pod) = &snapshot.pod else { return };
    let seen: Value = serde_json::from_str(&pod.digest.seen).unwrap_or_default();
    for (container, reason, message) in report::raw(&seen) {
        let Snapshot { namespace, name, .. } = snapshot;
        tracing::info!(%namespace, %name, container, reason, detail = ?message, "the container does not start");
    }
}

fn is_replacement(effect: &Effect) -> bool {
    effect.reason == WriteReason::PodReplaced
}

fn is_pod(effect: &Effect) -> bool {
    effect.reason == WriteReason::Pod && is_creation(effect)
}

fn is_creation(effect: &Effect) -> bool {
    matches!(effect.write, Write::Create { .. })
}
