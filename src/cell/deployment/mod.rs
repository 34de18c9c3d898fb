//! Deployments: the controller creates the Instances and the network of each, and reports its status
//! (contract: cell.md §2, §10).
//!
//! Enqueued by changes of the deployment, its Instances, its networking objects, and the location of the cell.

pub mod decide;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;
pub mod triggers;

use super::context::{Context, request_project};
use decide::Decision;
use fedgate_engine::runtime::driver::MAX_PASSES;
use fedgate_engine::{
    error::Failure,
    key::Key,
    plan::{Plan, Requeue},
    reconcile::throttle::{Rate, Throttle},
};
use std::time::Duration;

/// The deployment controller.
#[derive(Debug, Default)]
pub struct Deployments {
    /// Time of the last status write of each deployment.
    pub(super) written: Throttle,
}

/// Requeue interval while quota is unavailable: not every cause reports its end. A reconcile sends no request to any
/// server for that.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

impl Deployments {
    /// Reconciles a deployment's key.
    pub async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let mut next = Requeue::AwaitChange;
        for _ in 0..MAX_PASSES {
            let Some(snapshot) = observe::observe(ctx, key) else {
                self.written.forget(key);
                return Ok(Requeue::AwaitChange);
            };
            if let Some(project) = &snapshot.unwatched {
                request_project(ctx, project);
            }
            let now = ctx.now();
            let Decision { writes, status, held } = decide::decide(&snapshot, now.wall);
            let worked = !writes.is_empty();
            let done = ctx.execute_all(writes).await;
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
