//! Projector: a cell's Instance on the hub becomes an Instance in the project, owned by the live deployment.
//!
//! Triggers: write-backs, project deployments, copies, projections and owners of hub namespaces. Contract:
//! federation.md §3.8.

pub mod decide;
pub mod memory;
mod observe;

#[cfg(test)]
mod tests;

pub use observe::observe;

use super::{
    confirm,
    context::{self, Context, Shared, State, publish},
    index::{self, GatewayIndex, rows::Source},
    projection::{Decision, Rejection},
};
use crate::effects;
use decide::Snapshot;
use fedgate_engine::{
    error::{Category, Failure},
    key::{Key, Plane},
    metrics::Stage,
    plan::{Applied, Endpoint, Event, Plan, Prepared, Requeue, Target},
    reconcile::{
        memory::Memories,
        throttle::{RETRY_AFTER, Rate, TokenBucket},
    },
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
    store::table::Row,
};
use memory::{Delay, Memory};

/// An Instance that is not projected for this time is reported to its tenant.
const DELAYED: std::time::Duration = std::time::Duration::from_mins(1);

/// The projector and the state that it keeps for each write-back.
#[derive(Debug, Default)]
pub struct Projector {
    memory: Memories<Memory>,
}

impl Projector {
    /// Drops state that no longer matters: full token buckets, and write-backs in hub namespaces without an owner.
    /// Called every few seconds.
    pub fn prune(&self, ctx: &Shared, index: &GatewayIndex) {
        let now = ctx.now().instant;
        self.memory.retain(|key, m| {
            if m.updates.is_full(now) {
                m.updates = TokenBucket::default();
            }
            index.owners.contains_key(&key.namespace)
        });
    }

    /// Number of write-backs with state.
    #[cfg(test)]
    pub(crate) fn entry_count(&self) -> usize {
        self.memory.len()
    }
}

/// The basis of a decision on a write-back, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    snapshot: Snapshot,
    /// A write-back that is quarantined.
    rejection: Option<Rejection>,
    /// True if the plan assumes that the write-back does not exist.
    gone: bool,
    /// True if its projection has waited, and goes on.
    resumed: bool,
}

impl Basis {
    fn of(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            rejection: None,
            gone: false,
            resumed: false,
        }
    }
}

impl Reconciler for Projector {
    type State = State;
    type Session = Memory;
    type Basis = Basis;

    const NAME: &'static str = "projector";

    fn begin(&self, _: &Context<'_>, key: &Key) -> Memory {
        self.memory.take(key)
    }

    fn end(&self, _: &Context<'_>, key: &Key, memory: Memory) {
        self.memory.put(key, memory);
    }

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let mut index = run.ctx.index.lock();
        confirm::awaits_proof(&mut index, run.key, &run.key.namespace);
        let Some(snapshot) = observe(&index, run.key) else {
            run.session = Memory::default();
            index.drop_write_back(run.key);
            return Step::End(Requeue::AwaitChange);
        };
        // The guard must end before the index is locked again.
        drop(index);
        if run.session.delay == Delay::Over {
            run.session.delay = Delay::None;
            return Step::Read(Basis {
                resumed: true,
                ..Basis::of(snapshot)
            });
        }
        let decision = decide::decide(&snapshot, &mut run.session, &run.ctx.settings, run.ctx.now());
        let wait = |requeue| {
            drop_body(run.ctx, &snapshot);
            run.ctx.quarantine.release(run.key);
            Step::End(requeue)
        };
        // A suspended project admits deletions alone; no body is kept for what waits.
        let parked = snapshot.suspended && decision.writes();
        let gone = matches!(decision, Decision::Confirm(_));
        match decision {
            Decision::Wait => {
                if snapshot.projection.is_some() {
                    end_wait(run.ctx, &snapshot);
                }
                wait(Requeue::AwaitChange)
            }
            _ if parked => wait(Requeue::AwaitChange),
            Decision::WaitFor(after) => wait(Requeue::After(after)),
            Decision::Throttled(after) => {
                run.ctx.quarantine.release(run.key);
                Step::End(Requeue::After(after))
            }
            Decision::Quarantine(rejection) => Step::Read(Basis {
                rejection: Some(rejection),
                ..Basis::of(snapshot)
            }),
            Decision::Read => Step::Read(Basis::of(snapshot)),
            Decision::Do(plan) | Decision::Confirm(plan) => {
                let basis = Basis {
                    gone,
                    ..Basis::of(snapshot)
                };
                Step::Apply(plan, basis)
            }
        }
    }

    async fn read(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) -> Result<Flow, Failure> {
        let s = &basis.snapshot;
        if basis.resumed {
            let message = "Instances are projected again".to_owned();
            if let Some(source) = &s.source {
                publish(
                    run.ctx,
                    event(s, source, false, ["Resumed", "Projecting"], message),
                )
                .await;
            }
            return Ok(Flow::Again);
        }
        if let Some(rejection) = &basis.rejection {
            return Ok(Flow::End(
                quarantine(run.ctx, run.key, s, rejection.clone()).await,
            ));
        }
        let store = |index: &mut GatewayIndex, object| index.hub.write_backs[s.kind].store_body(object);
        Ok(if run.ctx.read_body(&written_back(s), store).await? {
            Flow::Again
        } else {
            Flow::End(Requeue::AwaitChange)
        })
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, basis: &Basis) {
        run.ctx.quarantine.release(run.key);
        end_wait(run.ctx, &basis.snapshot);
        drop_body(run.ctx, &basis.snapshot);
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let is_there = basis.gone && !confirm::is_absent(run.ctx, &written_back(&basis.snapshot)).await?;
        Ok(Flow::go_if(!is_there))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, plan: &Plan<Applied>) -> Flow {
        record_stored(run.ctx, run.key, &basis.snapshot, &mut run.session, plan);
        run.ctx.quarantine.release(run.key);
        if run.session.delay == Delay::Reported {
            run.session.delay = Delay::Over;
        }
        run.ctx
            .record_stage(Stage::WritebackToProjection, run.ctx.enqueued_at);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        if failure.category != Category::Refused {
            if failure.category == Category::ProjectSuspended {
                drop_body(run.ctx, &basis.snapshot);
            } else {
                report_delay(run, &basis.snapshot, &failure).await;
            }
            return Err(failure);
        }
        let rejection = Rejection {
            verdict: failure.category.into(),
            message: failure.to_string(),
        };
        // The failure stays in the record of failures, so that `fedgate stuck` has the server's words.
        quarantine(run.ctx, run.key, &basis.snapshot, rejection).await;
        Err(failure)
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("Instance projected")
    }
}

/// Ends the wait of an Instance: there is nothing to write, or its write-back is quarantined.
fn end_wait(ctx: &Context<'_>, s: &Snapshot) {
    let object = index::ObjectRef::new(s.kind, &s.hub.as_str().into(), &s.name);
    let stage = fedgate_operations::Stage::WritebackToProjection;
    ctx.index.lock().end_wait(stage, &object);
}

/// The write-back's object on the hub.
fn written_back(s: &Snapshot) -> Target {
    Target::namespaced(Plane::Hub, &s.rules.resource, s.hub.as_str(), &s.name)
}

/// Records that the project's API server answered with something other than what was applied.
fn record_stored(
    ctx: &Context<'_>,
    key: &Key,
    before: &Snapshot,
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
    for effect in applied.effects.iter().chain(applied.status.as_deref()) {
        memory.record_stored(effect.endpoint == Endpoint::Status, &asked.digest, &got.digest);
    }
}

/// Reports a verdict once: a log line and, if the project is beyond doubt, an Event.
async fn quarantine(ctx: &Context<'_>, key: &Key, s: &Snapshot, rejection: Rejection) -> Requeue {
    drop_body(ctx, s);
    end_wait(ctx, s);
    let next = Requeue::After(RETRY_AFTER);
    let Rejection { verdict, message } = rejection;
    let Some(is_foreign) = context::quarantine(ctx, key, verdict) else {
        return next;
    };
    let (namespace, name) = (&*key.namespace, &*key.name);
    tracing::warn!(plane = "hub", controller = "projector", kind = %key.kind, namespace, name, %key, reason = verdict.label(), detail = message, "write-back quarantined");
    let (Some(source), false) = (&s.source, is_foreign) else {
        return next;
    };
    let reason = format!("Quarantined{}", camel(verdict.label()));
    let words = [reason.as_str(), "QuarantiningProjection"];
    publish(ctx, event(s, source, true, words, message)).await;
    next
}

/// An Event on the project's deployment of a write-back.
fn event(s: &Snapshot, source: &Row<Source>, warning: bool, words: [&str; 2], message: String) -> Event {
    let name = s.deployment().unwrap_or_default();
    let about = effects::about(&s.profile().resource, &s.namespace, name, &source.uid);
    effects::event(s.plane(), about, warning, words, message)
}

/// Tells the tenant, once, that an Instance has not been written into its project for a minute. A project that is down
/// hears nothing.
async fn report_delay(run: &mut Reconcile<'_, Projector>, s: &Snapshot, failure: &Failure) {
    let known = run.ctx.workers.failures().of(run.key);
    let lasting = known.filter(|known| run.ctx.now().since_wall(known.since) >= DELAYED);
    let is_of_project = failure.plane == s.plane();
    let Some(known) = lasting.filter(|_| is_of_project && run.session.delay == Delay::None) else {
        return;
    };
    run.session.delay = Delay::Reported;
    let (verb, category, since) = (failure.verb, failure.category.as_str(), known.since);
    let message =
        format!("{verb} of Instances in this project fails ({category}) since {since}; it is tried again");
    if let Some(source) = &s.source {
        publish(
            run.ctx,
            event(s, source, true, ["ProjectionDelayed", "Projecting"], message),
        )
        .await;
    }
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
