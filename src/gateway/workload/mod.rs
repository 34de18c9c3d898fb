//! Workload controller: a deployment for each placement and city, and the status rolled up (contract: cell.md §1).

mod checks;
pub mod decide;
mod matching;
mod name;
mod observe;
mod prepare;
mod rollup;
pub mod snapshot;
#[cfg(test)]
mod tests;

use super::{
    context::{PASSES, Turn},
    quarantine::RETRY_AFTER,
};
use crate::{
    api::names::ProjectKey,
    engine::{
        error::Failure,
        key::Key,
        plan::{About, Next, Note, Plan, Prepared},
    },
};
use observe::Absence;

/// Says on the Workload itself that it cannot be read.
fn undecodable(key: &Key, uid: String, error: &str) -> Plan<Prepared> {
    let mut plan = Plan::default();
    plan.notes.push(Note {
        plane: key.plane.clone(),
        about: About {
            api_version: crate::api::API_VERSION.to_owned(),
            kind: "Workload".to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid,
        },
        warning: true,
        reason: "QuarantinedUndecodable".to_owned(),
        action: "QuarantiningWorkload".to_owned(),
        message: format!(
            "the Workload cannot be read: {error}; correct the field and it is taken up at once"
        ),
    });
    plan
}

/// One turn of a Workload's key.
pub async fn reconcile(ctx: &Turn<'_>, key: &Key, project: &ProjectKey) -> Result<Next, Failure> {
    for _ in 0..PASSES {
        // The guard must end before anything is awaited.
        let observed = observe::observe(&ctx.world.lock(), key, project);
        let observed = match observed {
            Ok(observed) => observed,
            Err(Absence::Nothing) => {
                ctx.quarantine.release(key);
                return Ok(Next::OnEvent);
            }
            Err(Absence::Undecodable { uid, error }) => {
                if ctx.quarantine.put(key, "undecodable") {
                    tracing::warn!(%key, controller = "workload", error, "the Workload cannot be read; correct it and it is taken up at once");
                    ctx.perform(undecodable(key, uid, &error)).await?;
                }
                return Ok(Next::After(RETRY_AFTER));
            }
        };
        ctx.quarantine.release(key);
        let plan = prepare::prepare(
            &observed,
            project,
            decide::decide(&observed.snapshot, ctx.now().wall),
        );
        if plan.is_idle() {
            return Ok(plan.next);
        }
        let reasons: Vec<&str> = plan.effects.iter().map(|e| e.reason).collect();
        ctx.perform(plan).await?;
        tracing::info!(plane = %key.plane, controller = "workload", %key, changes = reasons.join(", "), "Workload carried out");
    }
    Ok(Next::OnEvent)
}
