//! Workload controller: creates a deployment for each placement and city, and aggregates their status (contract:
//! cell.md §1).

mod checks;
pub mod decide;
mod matching;
mod name;
mod normalized;
mod observe;
mod prepare;
mod rollup;
pub mod snapshot;
#[cfg(test)]
mod tests;
pub mod triggers;

use super::{context::Context, index::GatewayIndex};
use fedgate_api::names::ProjectKey;
use fedgate_engine::runtime::context::MAX_PASSES;
use fedgate_engine::{
    diff::Digest,
    error::Failure,
    key::{Key, Plane},
    plan::{Event, ObjectRef, Plan, Prepared, Requeue, Write},
    reconcile::quarantine::RETRY_AFTER,
};
use kube::core::ObjectMeta;
use normalized::Normalized;
use observe::NoSnapshot;
use serde_json::json;

/// An Event on the Workload that reports a decoding error.
fn undecodable(key: &Key, uid: String, error: &str) -> Plan<Prepared> {
    let mut plan = Plan::default();
    plan.notes.push(Event {
        plane: key.plane.clone(),
        about: ObjectRef {
            api_version: fedgate_api::API_VERSION.to_owned(),
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

/// The Workload controller; see the module.
#[derive(Debug, Default)]
pub struct Workloads {
    normalized: Normalized,
}

impl Workloads {
    /// Forgets the Workloads of projects that are disengaged.
    pub fn prune(&self, index: &GatewayIndex) {
        let engaged = |key: &Key| matches!(&key.plane, Plane::Project(p) if index.projects.contains_key(p));
        self.normalized.retain(engaged);
    }

    /// Number of remembered Workloads.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.normalized.kept()
    }

    /// Reconciles a Workload.
    pub async fn reconcile(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        project: &ProjectKey,
    ) -> Result<Requeue, Failure> {
        reconcile_once(ctx, key, project, &self.normalized).await
    }
}

/// Identifies a state of a Workload.
#[derive(Debug, PartialEq)]
struct ObjectState {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
}

impl ObjectState {
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// A digest of a plan's writes.
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

async fn reconcile_once(
    ctx: &Context<'_>,
    key: &Key,
    project: &ProjectKey,
    normalized: &Normalized,
) -> Result<Requeue, Failure> {
    let mut asked = None;
    let mut confirmed = None;
    for _ in 0..MAX_PASSES {
        // The lock guard must be dropped before the first await.
        let observed = observe::observe(&ctx.index.lock(), key, project);
        let observed = match observed {
            Ok(observed) => observed,
            Err(NoSnapshot::Nothing) => {
                normalized.forget(key);
                ctx.quarantine.release(key);
                return Ok(Requeue::AwaitChange);
            }
            Err(NoSnapshot::Undecodable { uid, error }) => {
                if ctx.quarantine.insert(key, "undecodable") {
                    tracing::warn!(%key, controller = "workload", error, "the Workload cannot be parsed; it is reconciled as soon as it is corrected");
                    ctx.execute(undecodable(key, uid, &error)).await?;
                }
                return Ok(Requeue::After(RETRY_AFTER));
            }
        };
        ctx.quarantine.release(key);
        let plan = decide::decide(&observed.snapshot, ctx.now().wall);
        let doubtful = plan.needs_confirmation(&observed.snapshot);
        let plan = prepare::prepare(&observed, project, plan);
        if plan.is_idle() {
            normalized.forget(key);
            return Ok(plan.next);
        }
        let wanted = asked_for(&plan);
        if !normalized.goes_on(key, asked, wanted, observed.basis) {
            return Ok(plan.next);
        }
        let seen = ObjectState::of(&observed.snapshot.workload.metadata);
        if doubtful && confirmed.as_ref() != Some(&seen) {
            if confirmed.is_some() {
                // The Workload has just been read and still differs from the index: the index is stale, or the plane
                // is.
                return Ok(Requeue::After(RETRY_AFTER));
            }
            let Some(object) = ctx
                .executor
                .refresh(&prepare::workload(&observed, project))
                .await?
            else {
                return Ok(Requeue::After(RETRY_AFTER));
            };
            let is = ObjectState::of(&object.metadata);
            let agrees = is == seen;
            confirmed = Some(is);
            if !agrees {
                tracing::info!(plane = %key.plane, controller = "workload", %key, "the index has an older Workload than the plane; the Workload was read again");
                continue;
            }
        }
        asked = Some((wanted, observed.basis));
        let reasons: Vec<&str> = plan.effects.iter().map(|e| e.reason).collect();
        ctx.execute(plan).await?;
        tracing::info!(plane = %key.plane, controller = "workload", %key, changes = reasons.join(", "), "Workload reconciled");
    }
    Ok(Requeue::AwaitChange)
}
