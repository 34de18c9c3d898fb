//! City policies: in each hub namespace one `PropagationPolicy` for each city in use, and none else
//! (contract: federation.md §3.6). One decision at a time for a namespace.
//!
//! Woken by cities announced and left, by policies, and by copies and bindings that go.

pub mod decide;
mod observe;

#[cfg(test)]
mod tests;

pub use observe::{needed, observe};

use super::{
    context::{PASSES, Turn},
    world::Role,
};
use crate::engine::{error::Failure, plan::Next, queue::Urgency};
use decide::{condemned, decide};

/// One turn of a hub namespace's policies.
pub async fn reconcile(ctx: &Turn<'_>, hub: &str) -> Result<Next, Failure> {
    let key = ctx.world.lock().hub_key(Role::CityPolicies, hub, "");
    for _ in 0..PASSES {
        let (plan, condemned) = {
            let mut world = ctx.world.lock();
            let Some(snapshot) = observe(&world, hub) else {
                return Ok(Next::OnEvent);
            };
            let plan = decide(&snapshot);
            let condemned = condemned(&snapshot, &plan);
            // From here on nobody may rely on these policies; see `World::city_ready`.
            world.condemned.extend(condemned.iter().cloned());
            (plan, condemned)
        };
        if plan.is_idle() {
            // One of them may have waited for a policy to go that is needed again.
            let leaving = ctx.world.lock().leaving_keys(hub);
            ctx.queue.extend(leaving, Urgency::Fresh);
            return ctx.heard(&key, hub, Ok(plan.next));
        }
        let reasons: Vec<_> = plan
            .effects
            .iter()
            .map(|e| format!("{} {}", e.reason, e.target.name))
            .collect();
        let result = ctx.perform(plan).await;
        ctx.lift_ban(hub, &condemned);
        ctx.heard(&key, hub, result)?;
        tracing::info!(
            plane = "hub",
            controller = "policies",
            namespace = hub,
            changes = reasons.join(", "),
            "city policies changed"
        );
    }
    Ok(Next::OnEvent)
}
