//! City policies: in each hub namespace one `PropagationPolicy` for each city in use, and no other
//! (contract: federation.md §3.6). Reconciles of a namespace run one at a time.
//!
//! Enqueued when a city is announced or goes out of use, when a policy changes, and when a copy or binding is deleted.

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
};
use decide::{decide, withdrawing};
use fedgate_api::names::CityCode;
use fedgate_engine::{
    error::Failure,
    key::Key,
    plan::{Applied, Plan, Prepared, Requeue},
    runtime::{
        driver::{Flow, Reconciler, Step},
        queue::Priority,
    },
};
use std::sync::Arc;

/// The controller of city policies.
#[derive(Debug, Default)]
pub struct Policies;

/// The basis of a plan for the policies of a hub namespace, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    /// Cities whose policies the plan deletes.
    withdrawing: Vec<(Arc<str>, CityCode)>,
    /// The project namespace of which the plan assumes that it is gone.
    gone: Option<confirm::Origin>,
}

impl Reconciler for Policies {
    type State = State;
    type Session = ();
    type Basis = Basis;

    const NAME: &'static str = "policies";

    fn begin(&self, _: &Context<'_>, _: &Key) {}

    fn decide(&self, ctx: &Context<'_>, key: &Key, (): &mut ()) -> Step<Basis> {
        let hub = &*key.namespace;
        let mut index = ctx.index.lock();
        confirm::awaits_proof(&mut index, key, hub);
        let Some(snapshot) = observe(&index, hub) else {
            return Step::End(Requeue::AwaitChange);
        };
        let plan = decide(&snapshot);
        let withdrawing = withdrawing(&snapshot, &plan);
        // From here on no controller may rely on these policies; see `GatewayIndex::city_ready`.
        index.withdrawing.extend(withdrawing.iter().cloned());
        // A deletion because the project namespace is missing needs confirmation by the project's plane.
        let suspected = !withdrawing.is_empty() && !index.owners.contains_key(hub);
        let gone = suspected.then(|| lifecycle::origin_namespace(&index, hub));
        Step::Apply(plan, Basis { withdrawing, gone })
    }

    fn settled(&self, ctx: &Context<'_>, key: &Key, (): &mut (), _: &Basis) {
        // A deployment that leaves may have waited for the deletion of a policy that is needed again.
        let leaving = ctx.index.lock().leaving_keys(&key.namespace);
        ctx.queue.extend(leaving, Priority::Fresh);
        record_refusal(ctx, key, &key.namespace, None);
    }

    async fn confirm(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        (): &mut (),
        basis: &Basis,
        _: &Plan<Prepared>,
    ) -> Result<Flow, Failure> {
        let Some(origin) = basis.gone.clone() else {
            return Ok(Flow::Go);
        };
        match confirm::namespace_gone(ctx, origin).await {
            Ok(true) => Ok(Flow::Go),
            Ok(false) => {
                clear_withdrawing(ctx, &key.namespace, &basis.withdrawing);
                Ok(Flow::End(Requeue::AwaitChange))
            }
            Err(failure) => self.failed(ctx, key, &mut (), basis, failure).await,
        }
    }

    fn executed(&self, ctx: &Context<'_>, key: &Key, (): &mut (), basis: &Basis, _: &Plan<Applied>) -> Flow {
        clear_withdrawing(ctx, &key.namespace, &basis.withdrawing);
        record_refusal(ctx, key, &key.namespace, None);
        Flow::Again
    }

    async fn failed(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        (): &mut (),
        basis: &Basis,
        failure: Failure,
    ) -> Result<Flow, Failure> {
        clear_withdrawing(ctx, &key.namespace, &basis.withdrawing);
        record_refusal(ctx, key, &key.namespace, Some(&failure));
        Err(failure)
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        Some("city policies changed")
    }
}
