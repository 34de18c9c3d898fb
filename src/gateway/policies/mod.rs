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
    confirm,
    context::{PASSES, Turn},
    garbage,
    world::Role,
};
use crate::engine::{error::Failure, plan::Next, queue::Urgency};
use decide::{condemned, decide};

/// One turn of a hub namespace's policies.
pub async fn reconcile(ctx: &Turn<'_>, hub: &str) -> Result<Next, Failure> {
    let key = ctx.world.lock().hub_key(Role::CityPolicies, hub, "");
    for _ in 0..PASSES {
        let (plan, condemned, origin) = {
            let mut world = ctx.world.lock();
            confirm::awaits_proof(&mut world, &key, hub);
            let Some(snapshot) = observe(&world, hub) else {
                return Ok(Next::OnEvent);
            };
            let plan = decide(&snapshot);
            let condemned = condemned(&snapshot, &plan);
            // From here on nobody may rely on these policies; see `World::city_ready`.
            world.condemned.extend(condemned.iter().cloned());
            // What goes for want of a project namespace is confirmed by its plane.
            let suspected = !condemned.is_empty() && !world.ties.contains_key(hub);
            let origin = suspected.then(|| garbage::origin_namespace(&world, hub));
            (plan, condemned, origin)
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
        let result = match origin {
            Some(origin) => match confirm::namespace_gone(ctx, origin).await {
                Ok(true) => ctx.perform(plan).await,
                Ok(false) => {
                    ctx.lift_ban(hub, &condemned);
                    return Ok(Next::OnEvent);
                }
                Err(failure) => Err(failure),
            },
            None => ctx.perform(plan).await,
        };
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
