//! Workload controller: creates a deployment for each placement and place, and aggregates their status (contract:
//! cell.md §1).

mod checks;
pub mod decide;
mod matching;
mod name;
mod observe;
mod prepare;
mod ready;
mod replaced;
mod rollup;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod wanted;

use super::{
    context::{State, publish},
    effects,
    index::{GatewayIndex, TableId, rows::WorkloadDigest},
    reason::Verdict,
};
use decide::{Part, WorkloadEffect};
use fedgate_engine::{
    diff::Digest,
    error::{Category, Failure},
    key::{Key, Plane},
    plan::{Applied, Event, ObjectRef, Plan, Prepared, Requeue, Target},
    reconcile::{memory::Memories, normalized::Normalized, throttle::RETRY_AFTER},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use jiff::Timestamp;
use kube::core::{DynamicObject, ObjectMeta};
use observe::NoSnapshot;
use replaced::allows_gap;
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// A warning about the Workload of a key; reason and action are those of the Event.
fn warning(key: &Key, uid: String, words: [&str; 2], message: String) -> Event {
    let about = ObjectRef {
        api_version: fedgate_api::API_VERSION.to_owned(),
        kind: "Workload".to_owned(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid,
    };
    effects::event(key.plane.clone(), about, true, words, message)
}

/// A Workload whose key fails for this time is reported to its tenant.
const DELAYED: Duration = Duration::from_mins(1);

/// An Event on the Workload: its key fails since then. It has no words of a server.
fn retrying(key: &Key, uid: String, failure: &Failure, since: Timestamp) -> Event {
    let kind = failure.object.split(' ').next().unwrap_or_default();
    let (verb, category) = (failure.verb, failure.category.as_str());
    let message =
        format!("{verb} {kind} in this project fails ({category}) since {since}; it is tried again");
    warning(key, uid, ["Retrying", "Reconciling"], message)
}

/// The Workload controller; see the module.
#[derive(Debug, Default)]
pub struct Workloads {
    normalized: Memories<Normalized>,
    /// Workloads whose tenants were told that they fail.
    delayed: Memories<bool>,
    /// The words of a project's API server when it refused a deployment of a Workload, until it takes all of them.
    refused: Memories<Option<String>>,
}

impl Workloads {
    /// Forgets the Workloads of projects that are disengaged.
    pub fn prune(&self, index: &GatewayIndex) {
        let engaged = |key: &Key| matches!(&key.plane, Plane::Project(p) if index.projects.contains_key(p));
        self.normalized.retain(|key, _| engaged(key));
        self.delayed.retain(|key, _| engaged(key));
        self.refused.retain(|key, _| engaged(key));
    }

    /// Number of remembered Workloads.
    #[cfg(test)]
    pub(crate) fn entry_count(&self) -> usize {
        self.normalized.len()
    }
}

/// Identifies a state of a Workload.
#[derive(Debug, PartialEq)]
pub struct ObjectState {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    allows_gap: bool,
}

impl ObjectState {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            allows_gap: allows_gap(metadata),
        }
    }
}

/// Memory that the bodies of one plan may take, in bytes as the API server counts them; a larger plan is executed in parts.
const BODIES: usize = 4 * 1024 * 1024;

fn is_deployment(target: &Target) -> bool {
    target.resource.kind == "WorkloadDeployment"
}

/// True if a plan is to be executed. `executed` is the plan that this reconcile has executed last, with the state that it
/// was decided from; `found` is the current state. The Workload is normalized once a write has changed nothing: a difference
/// after the first write may be another client's edit.
fn goes_on(
    normalized: &mut Normalized,
    executed: Option<(Digest, Digest)>,
    wanted: Digest,
    found: Digest,
) -> bool {
    if executed == Some((wanted, found)) {
        normalized.record(wanted, found);
    }
    !normalized.accepts(wanted, found)
}

/// State of a Workload's reconcile.
#[derive(Debug, Default)]
pub struct Session {
    /// The last plan, and the state that it was decided from.
    asked: Option<(Digest, Digest)>,
    /// The Workload as its plane has it, if it was read before a write.
    confirmed: Option<ObjectState>,
    /// The Workload as it was read because the index does not keep its text.
    read: Option<WorkloadDigest>,
    /// Names of the deployments that earlier parts of the plan have written.
    written: BTreeSet<String>,
    /// The refusal of a deployment, which is returned to the queue once the status says it.
    refused: Option<Failure>,
}

/// The state that a plan for a Workload was decided from.
#[derive(Debug)]
pub struct Decided {
    /// The Workload.
    target: Target,
    /// State of the object.
    state: ObjectState,
    /// True if the plan deletes or creates something, so that the Workload is read before.
    doubtful: bool,
    /// Digest of the plan, and of the state that it was decided from.
    asked: (Digest, Digest),
    /// Names of the deployments whose bodies this part of the plan writes.
    written: BTreeSet<String>,
    /// True if the plan ends with this part.
    is_whole: bool,
}

impl Reconciler for Workloads {
    type State = State;
    type Session = Session;
    /// `None` if the Workload cannot be decoded, which the plan reports.
    type Basis = Option<Decided>;

    const NAME: &'static str = "workload";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Option<Decided>> {
        let Plane::Project(project) = &run.key.plane else {
            return Step::End(Requeue::AwaitChange);
        };
        let (observed, suspended) = {
            let index = run.ctx.index.lock();
            (
                observe::observe(&index, run.key, project, run.session.read.as_ref()),
                index.projects.get(project).is_some_and(|of| of.suspended),
            )
        };
        let mut observed = match observed {
            Ok(observed) => observed,
            Err(NoSnapshot::Nothing) => {
                self.normalized.forget(run.key);
                self.refused.forget(run.key);
                run.ctx.quarantine.release(run.key);
                return Step::End(Requeue::AwaitChange);
            }
            Err(NoSnapshot::Unread { deleting }) if suspended && !deleting => {
                return Step::End(Requeue::AwaitChange);
            }
            // The Workload that was read differs from the index: one of the two is older, and the event of the newer one enqueues the key.
            Err(NoSnapshot::Unread { .. }) if run.session.read.is_some() => {
                return Step::End(Requeue::After(RETRY_AFTER));
            }
            Err(NoSnapshot::Unread { .. }) => return Step::Read(None),
            Err(NoSnapshot::Undecodable { uid, error }) => {
                if !run.ctx.quarantine.insert(run.key, Verdict::Undecodable) {
                    return Step::End(Requeue::After(RETRY_AFTER));
                }
                let (plane, namespace, name) = (&run.key.plane, &*run.key.namespace, &*run.key.name);
                tracing::warn!(%plane, kind = %run.key.kind, namespace, name, key = %run.key, controller = Self::NAME, error, "the Workload cannot be parsed; it is reconciled as soon as it is corrected");
                let words = ["QuarantinedUndecodable", "QuarantiningWorkload"];
                let message = format!(
                    "the Workload cannot be read: {error}; nothing of it is changed until the field is corrected"
                );
                let event = warning(run.key, uid, words, message);
                return Step::Apply(Plan::with_event(event), None);
            }
        };
        run.ctx.quarantine.release(run.key);
        // Nothing is written for it before the project is resumed; a Workload that is being deleted goes on.
        if suspended && observed.snapshot.workload.metadata.deletion_timestamp.is_none() {
            return Step::End(Requeue::AwaitChange);
        }
        let refused = self.refused.take(run.key);
        observed.snapshot.checks.refused.clone_from(&refused);
        self.refused.put(run.key, refused);
        let mut effects = decide::decide(&observed.snapshot, run.ctx.now().wall);
        if run.session.refused.is_some() {
            effects.retain(|effect| matches!(effect, WorkloadEffect::PatchStatus(_)));
        }
        let doubtful = decide::needs_confirmation(&effects, &observed.snapshot);
        if effects.is_empty() {
            self.normalized.forget(run.key);
            if let Some(failure) = run.session.refused.take() {
                return Step::Fail(failure);
            }
            return Step::End(Requeue::AwaitChange);
        }
        let wanted = Digest::of_hash(&(Digest::of(&json!(effects)), observed.template_digest));
        let mut normalized = self.normalized.take(run.key);
        let goes_on = goes_on(&mut normalized, run.session.asked, wanted, observed.basis);
        self.normalized.put(run.key, normalized);
        if !goes_on {
            return Step::End(Requeue::AwaitChange);
        }
        let most = (BODIES / observed.template_size.max(1)).max(1);
        let part = Part::of(effects, most, &run.session.written);
        let mut plan = observed.prepare(part.effects);
        if part.is_first_of_several {
            // A reconcile has a number of passes.
            plan.next = Requeue::After(Duration::ZERO);
        }
        let basis = Decided {
            written: part.bodies,
            is_whole: !part.is_first_of_several,
            target: observed.workload(),
            state: ObjectState::of(&observed.snapshot.workload.metadata),
            doubtful,
            asked: (wanted, observed.basis),
        };
        Step::Apply(plan, Some(basis))
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, _: &Option<Decided>) -> Result<Flow, Failure> {
        let Key {
            plane,
            namespace,
            name,
            ..
        } = run.key;
        let workloads = run.ctx.index.lock().resource(TableId::Workloads).clone();
        let target = Target::namespaced(plane.clone(), &workloads, namespace, name);
        let Some(read) = run.ctx.executor.refresh(&target, WorkloadDigest::whole).await? else {
            return Ok(Flow::End(Requeue::After(RETRY_AFTER)));
        };
        run.session.read = Some(read);
        Ok(Flow::Again)
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Option<Decided>,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let Some(Decided {
            target,
            state,
            doubtful: true,
            ..
        }) = basis
        else {
            return Ok(Flow::Go);
        };
        if run.session.confirmed.as_ref() == Some(state) {
            return Ok(Flow::Go);
        }
        if run.session.confirmed.is_some() {
            // The Workload has just been read and still differs from the index: the index is stale, or the plane is.
            return Ok(Flow::End(Requeue::After(RETRY_AFTER)));
        }
        let state_of = |object: &DynamicObject| ObjectState::of(&object.metadata);
        let Some(is) = run.ctx.executor.refresh(target, state_of).await? else {
            return Ok(Flow::End(Requeue::After(RETRY_AFTER)));
        };
        let agrees = is == *state;
        run.session.confirmed = Some(is);
        if agrees {
            return Ok(Flow::Go);
        }
        let (namespace, name) = (&*run.key.namespace, &*run.key.name);
        tracing::info!(plane = %run.key.plane, controller = Self::NAME, kind = %run.key.kind, namespace, name, key = %run.key, "the index has an older Workload than the plane; the Workload was read again");
        Ok(Flow::Again)
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Option<Decided>, plan: &Plan<Applied>) -> Flow {
        let Some(basis) = basis else {
            return Flow::End(Requeue::After(RETRY_AFTER));
        };
        // That a write changed nothing is known of a whole plan alone.
        run.session.asked = basis.is_whole.then_some(basis.asked);
        if basis.is_whole {
            run.session.written.clear();
        } else {
            run.session.written.extend(basis.written.iter().cloned());
        }
        if plan.effects.iter().any(|effect| is_deployment(&effect.target)) {
            self.refused.forget(run.key);
        }
        // The write may have changed the Workload itself.
        run.session.read = None;
        self.delayed.forget(run.key);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Option<Decided>,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        let of_workload = basis.as_ref().map(|decided| decided.target.kind());
        let is_own = of_workload.is_none_or(|kind| failure.object.starts_with(kind.as_str()));
        if failure.category == Category::Refused && !is_own && run.session.refused.is_none() {
            let name = failure.object.rsplit('/').next().unwrap_or_default();
            let words = format!("the project refuses deployment {name}: {}", failure.message);
            self.refused.put(run.key, Some(words));
            run.session.refused = Some(failure);
            return Ok(Flow::Again);
        }
        let known = run.ctx.workers.failures().of(run.key);
        let lasts = known.filter(|known| run.ctx.now().since_wall(known.since) >= DELAYED);
        let uid = basis.as_ref().and_then(|decided| decided.state.uid.clone());
        let is_told = self.delayed.take(run.key);
        self.delayed.put(run.key, is_told || lasts.is_some());
        if let (Some(known), Some(uid), false) = (lasts, uid, is_told) {
            let event = retrying(run.key, uid, &failure, known.since);
            publish(run.ctx, event).await;
        }
        Err(failure)
    }

    fn message(&self, _: &Option<Decided>) -> Option<&'static str> {
        Some("Workload reconciled")
    }
}
