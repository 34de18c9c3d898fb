//! Deployments: each gets its Instances and its network, and says how they are (contract: cell.md §2, §10).
//!
//! Woken by the deployment, its Instances, its networking objects, and by the place of the cell.

pub mod decide;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;

use super::context::{Context, MAX_PASSES};
use decide::Decision;
use fedgate_engine::{
    error::Failure,
    key::Key,
    plan::{Plan, Requeue},
    throttle::{Rate, Throttle},
};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub struct Deployments {
    /// When the status of a deployment was last written.
    pub(super) written: Throttle,
}

/// While no quota can be had this often: not all that holds it up tells of its end. A look asks no server anything.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

impl Deployments {
    /// One turn of a deployment's key.
    pub async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let mut next = Requeue::AwaitChange;
        for _ in 0..MAX_PASSES {
            let Some(snapshot) = observe::observe(ctx, key) else {
                self.written.forget(key);
                return Ok(Requeue::AwaitChange);
            };
            if let Some(project) = &snapshot.unwatched {
                ctx.request_project(project);
            }
            let now = ctx.now();
            let Decision { writes, status, held } = decide::decide(&snapshot, now.wall);
            let worked = !writes.is_empty();
            let done = ctx.perform_all(writes).await;
            let rate = Rate::new(ctx.settings.status_interval);
            let wait = status.as_ref().and_then(|effect| {
                let write_kind = decide::write_kind(&snapshot, effect);
                self.written.wait(key, rate, write_kind, now.instant)
            });
            match (status, wait) {
                (Some(_), Some(left)) => next = Requeue::After(left),
                (Some(effect), None) => {
                    next = Requeue::AwaitChange;
                    ctx.execute(Plan::one(effect)).await?;
                    self.written.take(key, rate, ctx.now().instant);
                }
                (None, _) => next = Requeue::AwaitChange,
            }
            done?;
            if !worked {
                if held {
                    next = next.earlier(Requeue::After(LOOK_AGAIN));
                }
                break;
            }
        }
        Ok(next)
    }
}
