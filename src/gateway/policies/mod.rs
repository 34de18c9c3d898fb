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
    context::{Context, clear_withdrawing, record_refusal},
    index::TableId,
    queries::lifecycle,
};
use decide::{decide, withdrawing};
use fedgate_engine::runtime::context::MAX_PASSES;
use fedgate_engine::{error::Failure, plan::Requeue, runtime::queue::Priority};

/// Reconciles the policies of a hub namespace.
pub async fn reconcile(ctx: &Context<'_>, hub: &str) -> Result<Requeue, Failure> {
    let key = ctx.index.lock().hub_key(TableId::CityPolicies, hub, "");
    for _ in 0..MAX_PASSES {
        let (plan, withdrawing, origin) = {
            let mut index = ctx.index.lock();
            confirm::awaits_proof(&mut index, &key, hub);
            let Some(snapshot) = observe(&index, hub) else {
                return Ok(Requeue::AwaitChange);
            };
            let plan = decide(&snapshot);
            let withdrawing = withdrawing(&snapshot, &plan);
            // From here on no controller may rely on these policies; see `GatewayIndex::city_ready`.
            index.withdrawing.extend(withdrawing.iter().cloned());
            // A deletion because the project namespace is missing needs confirmation by the project's plane.
            let suspected = !withdrawing.is_empty() && !index.owners.contains_key(hub);
            let origin = suspected.then(|| lifecycle::origin_namespace(&index, hub));
            (plan, withdrawing, origin)
        };
        if plan.is_idle() {
            // A deployment that leaves may have waited for the deletion of a policy that is needed again.
            let leaving = ctx.index.lock().leaving_keys(hub);
            ctx.queue.extend(leaving, Priority::Fresh);
            return record_refusal(ctx, &key, hub, Ok(plan.next));
        }
        let reasons: Vec<_> = plan
            .effects
            .iter()
            .map(|e| format!("{} {}", e.reason, e.target.name))
            .collect();
        let result = match origin {
            Some(origin) => match confirm::namespace_gone(ctx, origin).await {
                Ok(true) => ctx.execute(plan).await,
                Ok(false) => {
                    clear_withdrawing(ctx, hub, &withdrawing);
                    return Ok(Requeue::AwaitChange);
                }
                Err(failure) => Err(failure),
            },
            None => ctx.execute(plan).await,
        };
        clear_withdrawing(ctx, hub, &withdrawing);
        record_refusal(ctx, &key, hub, result)?;
        tracing::info!(
            plane = "hub",
            controller = "policies",
            namespace = hub,
            changes = reasons.join(", "),
            "city policies changed"
        );
    }
    Ok(Requeue::AwaitChange)
}
