//! Workload controller: a deployment for each placement and city, and the status rolled up (contract: cell.md §1).

mod checks;
pub mod decide;
mod matching;
mod name;
mod observe;
mod rollup;
pub mod snapshot;
#[cfg(test)]
mod tests;

use super::context::{Context, PASSES, QUARANTINE};
use crate::{
    api::names::ProjectKey,
    engine::{diff::Digest, error::Failure, key::Key, plan::Next},
};
use observe::Absence;
use serde_json::Value;

/// The digest by which the index compares templates.
pub(super) fn template_digest(template: &Value) -> Digest {
    observe::normal_form(template)
}

/// One turn of a Workload's key.
pub async fn reconcile(ctx: &Context, key: &Key, project: &ProjectKey) -> Result<Next, Failure> {
    for _ in 0..PASSES {
        let observed = match observe::observe(&ctx.world.lock(), key, project) {
            Ok(observed) => observed,
            Err(Absence::Nothing) => return Ok(Next::OnEvent),
            Err(Absence::Undecodable(error)) => {
                tracing::warn!(%key, controller = "workload", error, "the Workload cannot be read; correct it and it is taken up at once");
                return Ok(Next::After(QUARANTINE));
            }
        };
        let plan = observe::prepare(&observed, project, decide::decide(&observed.snapshot, ctx.now().wall));
        if plan.is_idle() {
            return Ok(plan.next);
        }
        let reasons: Vec<&str> = plan.effects.iter().map(|e| e.reason).collect();
        ctx.executor.perform(plan).await?;
        tracing::info!(plane = %key.plane, controller = "workload", %key, changes = reasons.join(", "), "Workload carried out");
    }
    Ok(Next::OnEvent)
}
