//! Workload controller: a deployment for each placement and city, and the status rolled up (contract: cell.md §1).

mod checks;
pub mod decide;
mod matching;
mod name;
mod observe;
mod prepare;
mod rollup;
mod settled;
pub mod snapshot;
#[cfg(test)]
mod tests;

use super::{
    context::{PASSES, Turn},
    world::World,
};
use crate::{
    api::names::ProjectKey,
    engine::{
        diff::Digest,
        error::Failure,
        key::{Key, Plane},
        plan::{About, Next, Note, Plan, Prepared, Write},
        quarantine::RETRY_AFTER,
    },
};
use kube::core::ObjectMeta;
use observe::Absence;
use serde_json::json;
use settled::Settled;

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
            "the Workload cannot be read: {error}; nothing of it is changed until the field is corrected"
        ),
    });
    plan
}

/// See the module.
#[derive(Debug, Default)]
pub struct Workloads {
    settled: Settled,
}

impl Workloads {
    /// Forgets the Workloads of projects that have left.
    pub fn prune(&self, world: &World) {
        let engaged = |key: &Key| matches!(&key.plane, Plane::Project(p) if world.projects.contains_key(p));
        self.settled.retain(engaged);
    }

    /// Of how many Workloads something is remembered.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.settled.kept()
    }

    /// One turn of a Workload's key.
    pub async fn reconcile(&self, ctx: &Turn<'_>, key: &Key, project: &ProjectKey) -> Result<Next, Failure> {
        turn(ctx, key, project, &self.settled).await
    }
}

/// Which state of which Workload.
#[derive(Debug, PartialEq)]
struct Version {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
}

impl Version {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// A digest of what a plan asks for.
fn asked_for(plan: &Plan<Prepared>) -> Digest {
    let effects = plan.effects.iter().map(|effect| {
        let body = match &effect.write {
            Write::Create { body } | Write::Apply { body, .. } | Write::Merge { patch: body } => body.clone(),
            Write::Delete { uid, .. } => json!(uid),
        };
        json!([effect.reason, effect.target.name, body])
    });
    Digest::of(&effects.collect())
}

async fn turn(ctx: &Turn<'_>, key: &Key, project: &ProjectKey, settled: &Settled) -> Result<Next, Failure> {
    let mut asked = None;
    let mut confirmed = None;
    for _ in 0..PASSES {
        // The guard must end before anything is awaited.
        let observed = observe::observe(&ctx.world.lock(), key, project);
        let observed = match observed {
            Ok(observed) => observed,
            Err(Absence::Nothing) => {
                settled.forget(key);
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
        let plan = decide::decide(&observed.snapshot, ctx.now().wall);
        let doubtful = plan.needs_confirmation(&observed.snapshot);
        let plan = prepare::prepare(&observed, project, plan);
        if plan.is_idle() {
            settled.forget(key);
            return Ok(plan.next);
        }
        let wanted = asked_for(&plan);
        if !settled.goes_on(key, asked, wanted, observed.basis) {
            return Ok(plan.next);
        }
        let seen = Version::of(&observed.snapshot.workload.metadata);
        if doubtful && confirmed.as_ref() != Some(&seen) {
            if confirmed.is_some() {
                // It has just been read, and is still not the one that the index shows: the view is older, or the plane is.
                return Ok(Next::After(RETRY_AFTER));
            }
            let Some(object) = ctx
                .executor
                .reread(&prepare::workload(&observed, project))
                .await?
            else {
                return Ok(Next::After(RETRY_AFTER));
            };
            let is = Version::of(&object.metadata);
            let agrees = is == seen;
            confirmed = Some(is);
            if !agrees {
                tracing::info!(plane = %key.plane, controller = "workload", %key, "the view of the Workload lags; it was read anew");
                continue;
            }
        }
        asked = Some((wanted, observed.basis));
        let reasons: Vec<&str> = plan.effects.iter().map(|e| e.reason).collect();
        ctx.perform(plan).await?;
        tracing::info!(plane = %key.plane, controller = "workload", %key, changes = reasons.join(", "), "Workload carried out");
    }
    Ok(Next::OnEvent)
}
