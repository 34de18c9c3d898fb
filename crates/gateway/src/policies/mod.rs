//! Policies of cities and locations: in each hub namespace one `PropagationPolicy` for each route in use, and no other
//! (contract: federation.md §3.6, locations.md §2.4). Delivery policies of objects that live at one member are written here, too
//! (contract: clusters.md §2); `index::single_member::policy` has their names and specs. Reconciles of a namespace run one at a
//! time.
//!
//! Enqueued when a place is announced or goes out of use, when a policy changes, and when a copy or binding is deleted.

pub mod decide;
mod observe;

#[cfg(test)]
mod tests;

pub use observe::observe;

use super::{
    confirm,
    context::{Context, State, Withdrawn, record_refusal},
    queries::lifecycle,
};
use decide::{decide, withdrawing};
use fedgate_engine::{
    error::Failure,
    key::Key,
    plan::{Applied, Plan, Prepared, Requeue},
    runtime::{
        driver::{Flow, Reconcile, Reconciler, Step},
        queue::Priority,
    },
};

/// The controller of the policies of cities and locations.
#[derive(Debug, Default)]
pub struct Policies;

impl Reconciler for Policies {
    type State = State;
    type Session = Withdrawn;
    /// The project namespace of which the plan assumes that it is gone.
    type Basis = Option<confirm::Origin>;

    const NAME: &'static str = "policies";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Self::Basis> {
        let hub = &*run.key.namespace;
        let mut index = run.ctx.index.lock();
        confirm::awaits_proof(&mut index, run.key, hub);
        let Some(snapshot) = observe(&index, hub) else {
            return Step::End(Requeue::AwaitChange);
        };
        let plan = decide(&snapshot);
        let withdrawn = withdrawing(&plan);
        // A deletion because the project namespace is missing needs confirmation by the project's plane.
        let suspected = !withdrawn.is_empty() && !index.owners.contains_key(hub);
        let gone = suspected.then(|| lifecycle::origin_namespace(&index, hub));
        // From here on no controller may rely on these policies; see `GatewayIndex::is_ready`.
        run.session.record(&mut index, &snapshot.namespace, withdrawn);
        Step::Apply(plan, gone)
    }

    fn settled(&self, run: &mut Reconcile<'_, Self>, _: &Self::Basis) {
        // A deployment that leaves may have waited for the deletion of a policy that is needed again.
        let leaving = run.ctx.index.lock().leaving_keys(&run.key.namespace);
        run.ctx.queue.extend(leaving, Priority::Fresh);
        record_refusal(run.ctx, run.key, &run.key.namespace, None);
    }

    async fn confirm(
        &self,
        run: &mut Reconcile<'_, Self>,
        gone: &Self::Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let is_gone = match gone {
            Some(origin) => confirm::namespace_gone(run.ctx, &run.key.namespace, origin).await?,
            None => true,
        };
        Ok(Flow::go_if(is_gone))
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, _: &Self::Basis, _: &Plan<Applied>) -> Flow {
        record_refusal(run.ctx, run.key, &run.key.namespace, None);
        Flow::Again
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        _: &Self::Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        record_refusal(run.ctx, run.key, &run.key.namespace, Some(&failure));
        Err(failure)
    }

    fn end(&self, ctx: &Context<'_>, key: &Key, withdrawn: Withdrawn) {
        withdrawn.end(ctx, &key.namespace);
    }

    fn message(&self, _: &Self::Basis) -> Option<&'static str> {
        Some("city policies changed")
    }
}
