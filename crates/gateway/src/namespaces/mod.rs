//! Namespace delivery: each hub Namespace exists only at the cells of the cities in use (contract: federation.md §3.5).

pub mod decide;
mod observe;
pub mod sets;

#[cfg(test)]
mod tests;

pub use observe::observe;

use super::{
    confirm,
    context::{self, Context, State, Withdrawn, record_refusal},
    index::{GatewayIndex, intents::Withdrawal},
    reason::{IdentityRejection, Verdict},
};
use fedgate_engine::{
    error::Failure,
    key::Key,
    metrics::Family,
    plan::{Applied, Plan, Requeue},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use std::time::Duration;

/// Records the city set of a Namespace: the set that this replica has written, or the set found if none is recorded
/// yet.
fn note_set(index: &mut GatewayIndex, hub: &str, written: bool) {
    let row = index.hub.namespaces.get("", hub);
    let set = row.and_then(|row| row.digest.cities.clone());
    index.intents.deliveries.leave(&hub.into(), set.as_ref(), written);
}

/// The controller of hub Namespaces that belong to a live project namespace.
#[derive(Debug, Default)]
pub struct Namespaces;

/// Time after which other Namespaces try to use the room of one that could not move.
const ROOM_AFTER: Duration = Duration::from_secs(5);

impl Reconciler for Namespaces {
    type State = State;
    /// The cities that are taken from the Namespace.
    type Session = Withdrawn;
    type Basis = ();

    const NAME: &'static str = "namespaces";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<()> {
        let hub = &*run.key.name;
        let mut index = run.ctx.index.lock();
        confirm::awaits_proof(&mut index, run.key, hub);
        let Some(snapshot) = observe(&index, hub) else {
            return Step::End(Requeue::AwaitChange);
        };
        let (linger, limit) = (
            run.ctx.settings.city_linger,
            run.ctx.settings.city_sets_per_project,
        );
        let decision = sets::decided(&index, &snapshot, linger, limit, run.ctx.now());
        let limited = sets::note_limit(&mut index, hub, decision.limited);
        index
            .intents
            .deliveries
            .want(&hub.into(), decision.wanted.as_ref());
        if decision.left.is_empty() {
            index.intents.lingering.remove(hub);
        } else {
            index.intents.lingering.insert(hub.into(), decision.left.clone());
        }
        let narrowed = decision.narrowed.iter().cloned().map(Withdrawal::City);
        run.session.record(&mut index, &snapshot.name, narrowed);
        if let Some(set) = &decision.set {
            index.intents.deliveries.record_intended(&hub.into(), set);
            let label = snapshot.cluster.as_str().into();
            index.intents.moving.insert(hub.into(), (label, set.clone()));
        }
        drop(index);
        run.ctx.queue.extend(limited, Priority::Fresh);
        if decision.foreign || decision.collision {
            quarantine(run.ctx, run.key, decision.foreign);
            return Step::End(Requeue::AwaitChange);
        }
        run.ctx.quarantine.release(run.key);
        if decision.identity_restored {
            run.ctx.metrics.count(
                Family::IdentityRejections,
                &[IdentityRejection::LabelsEdited.as_str()],
            );
            tracing::warn!(
                plane = "hub",
                controller = Self::NAME,
                namespace = hub,
                "identity labels were edited; they are restored"
            );
        }
        Step::Apply(decision.plan, ())
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, (): &()) {
        note_set(&mut run.ctx.index.lock(), &run.key.name, false);
        record_refusal(run.ctx, run.key, &run.key.name, None);
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, (): &(), _: &Plan<Applied>) -> Flow {
        written(run.ctx, run.key, None);
        note_set(&mut run.ctx.index.lock(), &run.key.name, true);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        (): &(),
        failure: Failure,
    ) -> Result<Flow, Failure> {
        written(run.ctx, run.key, Some(&failure));
        Err(failure)
    }

    fn end(&self, ctx: &Context<'_>, key: &Key, withdrawn: Withdrawn) {
        withdrawn.end(ctx, &key.name);
    }

    fn message(&self, (): &()) -> Option<&'static str> {
        Some("hub Namespace changed")
    }
}

/// The writes have ended: the Namespace is no longer moving.
fn written(ctx: &Context<'_>, key: &Key, failure: Option<&Failure>) {
    let room = sets::arrived(&mut ctx.index.lock(), &key.name, failure.is_none());
    // Not at once: what the hub refuses to one, it may refuse to all, and each of them frees the room again.
    for waiting in room {
        ctx.queue.add_after(waiting, ROOM_AFTER);
    }
    record_refusal(ctx, key, &key.name, failure);
}

/// Reports, once, a Namespace of another owner, or one whose city set has the name of another set.
fn quarantine(ctx: &Context<'_>, key: &Key, foreign: bool) {
    let verdict = if foreign {
        Verdict::IdentityMismatch
    } else {
        Verdict::CitySetCollision
    };
    if context::quarantine(ctx, key, verdict.into()).is_none() {
        return;
    }
    let namespace = &*key.name;
    if foreign {
        tracing::warn!(
            plane = "hub",
            controller = Namespaces::NAME,
            namespace,
            "the identity labels name another owner; nothing is written until they agree or the object is deleted"
        );
    } else {
        tracing::error!(
            plane = "hub",
            controller = Namespaces::NAME,
            namespace,
            "the name of the city set collides with that of another set; the cities are not changed; use another set of cities in one of the two namespaces"
        );
    }
}
