//! Returns: a Secret that a member has for an object comes back to the object's project, owned by the live object (contract:
//! clusters.md §7). Values are read just before they are written, and never kept.
//!
//! A key is that of the project's Secret: what one tenant's objects return goes to no other tenant's plane.

pub mod decide;
mod observe;

#[cfg(test)]
mod tests;

pub use observe::observe;

use super::{
    confirm,
    context::{self, Context, Shared, State, publish},
    effects,
    index::{GatewayIndex, rows::Returned},
    projection::{Decision, Rejection},
    reason::Verdict,
};
use decide::{Memory, Snapshot};
use fedgate_engine::{
    error::{Category, Failure},
    key::{Key, Plane},
    plan::{Applied, Plan, Prepared, Requeue, Target, Write},
    reconcile::{
        memory::Memories,
        throttle::{RETRY_AFTER, Rate, TokenBucket},
    },
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use kube::core::DynamicObject;
use parking_lot::Mutex;
use std::time::Duration;

/// Limits the log lines about Secrets that do not come back, of which a member may write any number.
const LOG_RATE: Rate = Rate {
    interval: Duration::from_secs(1),
    burst: 25,
};

/// The controller of returns, and the state that it keeps for each Secret.
#[derive(Debug, Default)]
pub struct Returns {
    memory: Memories<Memory>,
    logged: Mutex<TokenBucket>,
}

impl Returns {
    /// Drops state that no longer matters.
    pub fn prune(&self, ctx: &Shared, index: &GatewayIndex) {
        let now = ctx.now();
        self.memory.retain(|key, memory| {
            if memory.updates.is_full(now.instant) {
                memory.updates = TokenBucket::default();
            }
            if memory.refused_for(now).is_none() {
                memory.refused = None;
            }
            matches!(&key.plane, Plane::Project(project) if index.projects.contains_key(project))
        });
    }
}

/// State of one reconcile.
#[derive(Debug, Default)]
pub struct Session {
    memory: Memory,
    /// The hub's Secret, read for the next write only.
    body: Option<DynamicObject>,
}

/// The basis of a decision, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    snapshot: Snapshot,
    rejection: Option<Rejection>,
    /// True if the plan assumes that the hub has no such Secret.
    gone: bool,
}

impl Reconciler for Returns {
    type State = State;
    type Session = Session;
    type Basis = Basis;

    const NAME: &'static str = "returns";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Session {
        Session {
            memory: self.memory.take(key),
            body: None,
        }
    }

    fn end(&self, _: &Context<'_>, key: &Key, session: Session) {
        self.memory.put(key, session.memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let snapshot = {
            let mut index = run.ctx.index.lock();
            let snapshot = observe(&index, run.key);
            if let Some(s) = snapshot.as_ref().filter(|s| s.own.is_some()) {
                awaits_proof(&mut index, run.key, s.hub.as_str());
            }
            snapshot
        };
        let Some(snapshot) = snapshot else {
            return Step::End(Requeue::AwaitChange);
        };
        let interval = run.ctx.settings.status_interval;
        let Session { memory, body } = &run.session;
        let decision = decide::decide(&snapshot, memory, body.as_ref(), interval, run.ctx.now());
        // A suspended project admits deletions alone.
        let parked = snapshot.suspended && decision.writes();
        let gone = matches!(decision, Decision::Confirm(_));
        let basis = |rejection| Basis {
            snapshot,
            rejection,
            gone,
        };
        let end = |requeue| {
            run.ctx.quarantine.release(run.key);
            Step::End(requeue)
        };
        match decision {
            _ if parked => end(Requeue::AwaitChange),
            Decision::Wait | Decision::WaitFor(_) => end(Requeue::AwaitChange),
            // The verdict of a refused name stays with it.
            Decision::Throttled(after) => Step::End(Requeue::After(after)),
            Decision::Quarantine(rejection) => Step::Read(basis(Some(rejection))),
            Decision::Read => Step::Read(basis(None)),
            Decision::Do(plan) | Decision::Confirm(plan) => Step::Apply(plan, basis(None)),
        }
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) -> Result<Flow, Failure> {
        let s = &basis.snapshot;
        if let Some(rejection) = &basis.rejection {
            let next = quarantine(run.ctx, run.key, s, rejection.clone(), &self.logged).await;
            return Ok(Flow::End(next));
        }
        // Not the index's own read: on the hub a Secret of this name may be a companion's.
        let found = on_hub(run.ctx, s).await?;
        let known = s.returned.as_ref();
        let is_same = |object: &DynamicObject| {
            let mut index = run.ctx.index.lock();
            known.is_some_and(|row| {
                object.metadata.uid.as_deref() == Some(&*row.uid)
                    && Returned::read(object, &mut index.words) == row.digest
            })
        };
        run.session.body = found.filter(is_same);
        // An event brings another one.
        Ok(match run.session.body {
            Some(_) => Flow::Again,
            None => Flow::End(Requeue::AwaitChange),
        })
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, _: &Basis) {
        run.session.memory.refused = None;
        run.ctx.quarantine.release(run.key);
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let is_there = basis.gone && on_hub(run.ctx, &basis.snapshot).await?.is_some();
        Ok(Flow::go_if(!is_there))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, _: &Basis, plan: &Plan<Applied>) -> Flow {
        let is_update = |write: &Write| matches!(write, Write::Apply { .. } | Write::Merge { .. });
        if plan.effects.iter().any(|effect| is_update(&effect.write)) {
            let rate = Rate::new(run.ctx.settings.status_interval);
            run.session.memory.updates.take(rate, run.ctx.now().instant);
        }
        run.session.memory.refused = None;
        run.session.body = None;
        run.ctx.quarantine.release(run.key);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        run.session.body = None;
        if failure.category != Category::AlreadyExists {
            return Err(failure);
        }
        run.session.memory.refused = Some(run.ctx.now().instant);
        let Decision::Quarantine(rejection) = decide::name_taken(&basis.snapshot) else {
            return Err(failure);
        };
        let next = quarantine(run.ctx, run.key, &basis.snapshot, rejection, &self.logged).await;
        Ok(Flow::End(next))
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("Secret of a member projected")
    }
}

/// Enqueues a key once absence is proof for it again. The list of returned Secrets is not among those that prove it for all: other
/// controllers do without it.
fn awaits_proof(index: &mut GatewayIndex, key: &Key, hub: &str) {
    if !confirm::awaits_proof(index, key, hub) && !index.hub.returned.proves() {
        index.await_proof(Plane::Hub, key);
    }
}

/// Reads the Secret from the hub. Without a pin there is nothing to ask for: its object is gone.
async fn on_hub(ctx: &Context<'_>, s: &Snapshot) -> Result<Option<DynamicObject>, Failure> {
    let Some(name) = &s.on_hub else { return Ok(None) };
    let target = Target::namespaced(Plane::Hub, &s.resource, s.hub.as_str(), name);
    ctx.executor.get(&target).await
}

/// Reports a verdict once: a log line and, if the project is beyond doubt, an Event on the object.
async fn quarantine(
    ctx: &Context<'_>,
    key: &Key,
    s: &Snapshot,
    rejection: Rejection,
    logged: &Mutex<TokenBucket>,
) -> Requeue {
    let next = Requeue::After(RETRY_AFTER);
    let Rejection { verdict, message } = rejection;
    let Some(is_foreign) = context::quarantine(ctx, key, verdict) else {
        return next;
    };
    let (namespace, name) = (s.hub.as_str(), &*s.name);
    if logged.lock().try_take(LOG_RATE, ctx.now().instant) {
        tracing::warn!(plane = "hub", controller = "returns", kind = %key.kind, namespace, name, %key, reason = verdict.label(), detail = message, "returned Secret quarantined");
    }
    let object = s.object.as_ref().filter(|_| !is_foreign);
    let Some((object, source)) = object.and_then(|object| Some((object, object.source.as_ref()?))) else {
        return next;
    };
    let resource = &s.kind_of(object).resource;
    let reason = if verdict == Verdict::NameTaken {
        "ReturnNameTaken"
    } else {
        "ReturnRejected"
    };
    let about = effects::about(resource, &s.namespace, &object.name, &source.uid);
    let words = [reason, "ReturningSecret"];
    publish(ctx, effects::event(s.plane(), about, true, words, message)).await;
    next
}
