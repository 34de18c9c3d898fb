//! Policies of cities and locations: in each hub namespace one `PropagationPolicy` for each route in use, and no other
//! (contract: federation.md §3.6, locations.md §2.4). Reconciles of a namespace run one at a time.
//!
//! Enqueued when a place is announced or goes out of use, when a policy changes, and when a copy or binding is deleted.

pub mod decide;
mod observe;
pub mod triggers;

#[cfg(test)]
mod tests;

pub use observe::observe;

use super::{
    confirm,
    context::{Context, State, clear_withdrawing, record_refusal},
    queries::lifecycle,
    route::Route,
};
use decide::{decide, withdrawing, withdrawn_delivery};
use fedgate_engine::{
    error::Failure,
    plan::{Applied, Plan, Prepared, Requeue},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};
use std::sync::Arc;

/// The controller of the policies of cities and locations.
#[derive(Debug, Default)]
pub struct Policies;

/// The basis of a plan for the policies of a hub namespace, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    /// Routes whose policies the plan deletes.
    withdrawing: Vec<(Arc<str>, Route)>,
    /// Delivery policies that the plan deletes.
    delivery: Vec<(Arc<str>, Arc<str>)>,
    /// The project namespace of which the plan assumes that it is gone.
    gone: Option<confirm::Origin>,
}

impl Reconciler for Policies {
    type State = State;
    type Session = ();
    type Basis = Basis;

    const NAME: &'static str = "policies";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let hub = &*run.key.namespace;
        let mut index = run.ctx.index.lock();
        confirm::awaits_proof(&mut index, run.key, hub);
        let Some(snapshot) = observe(&index, hub) else {
            return Step::End(Requeue::AwaitChange);
        };
        let plan = decide(&snapshot);
        let withdrawing = withdrawing(&snapshot, &plan);
        let delivery = withdrawn_delivery(&snapshot, &plan);
        index
            .intents
            .requested
            .withdrawing
            .extend(delivery.iter().cloned());
        // From here on no controller may rely on these policies; see `GatewayIndex::is_ready`.
        index.intents.withdrawing.extend(withdrawing.iter().cloned());
        // A deletion because the project namespace is missing needs confirmation by the project's plane.
        let is_idle = withdrawing.is_empty() && delivery.is_empty();
        let suspected = !is_idle && !index.owners.contains_key(hub);
        let gone = suspected.then(|| lifecycle::origin_namespace(&index, hub));
        let basis = Basis {
            withdrawing,
            delivery,
            gone,
        };
        Step::Apply(plan, basis)
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, _: &Basis) {
        // A deployment that leaves may have waited for the deletion of a policy that is needed again.
        let leaving = run.ctx.index.lock().leaving_keys(&run.key.namespace);
        run.ctx.queue.extend(leaving, Priority::Fresh);
        record_refusal(run.ctx, run.key, &run.key.namespace, None);
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let Some(origin) = basis.gone.clone() else {
            return Ok(Flow::Go);
        };
        if confirm::is_torn_down(run.ctx, &run.key.namespace) {
            return Ok(Flow::Go);
        }
        match confirm::namespace_gone(run.ctx, origin).await {
            Ok(true) => Ok(Flow::Go),
            Ok(false) => {
                ended(run.ctx, &run.key.namespace, basis);
                Ok(Flow::End(Requeue::AwaitChange))
            }
            Err(failure) => self.failed(run, basis, failure).await,
        }
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, _: &Plan<Applied>) -> Flow {
        ended(run.ctx, &run.key.namespace, basis);
        record_refusal(run.ctx, run.key, &run.key.namespace, None);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        ended(run.ctx, &run.key.namespace, basis);
        record_refusal(run.ctx, run.key, &run.key.namespace, Some(&failure));
        Err(failure)
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("city policies changed")
    }
}

/// The writes have ended: the policies are no longer being withdrawn.
fn ended(ctx: &Context<'_>, hub: &str, basis: &Basis) {
    clear_withdrawing(ctx, hub, &basis.withdrawing);
    if basis.delivery.is_empty() {
        return;
    }
    let mut index = ctx.index.lock();
    for policy in &basis.delivery {
        index.intents.requested.withdrawing.remove(policy);
    }
    let keys = index.waiting_keys(hub);
    drop(index);
    ctx.queue.extend(keys, Priority::Fresh);
}
