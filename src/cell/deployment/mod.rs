//! Deployments: each gets its Instances and its network, and says how they are (contract: cell.md §2, §10).
//!
//! Woken by the deployment, its Instances, its networking objects, and by the place of the cell.

pub mod decide;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;

use super::{
    context::{PASSES, Turn},
    pace::Pace,
};
use crate::engine::{
    error::Failure,
    key::Key,
    plan::{Next, Plan},
};
use decide::Decision;
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub struct Deployments {
    /// When the status of a deployment was last written.
    pub(super) written: Pace,
}

/// While no quota can be had this often: not all that holds it up tells of its end. A look asks no server anything.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

impl Deployments {
    /// One turn of a deployment's key.
    pub async fn reconcile(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let mut next = Next::OnEvent;
        for _ in 0..PASSES {
            let Some(snapshot) = observe::observe(ctx, key) else {
                self.written.forget(key);
                return Ok(Next::OnEvent);
            };
            if let Some(project) = &snapshot.unwatched {
                ctx.want(project);
            }
            let now = ctx.now();
            let Decision { writes, status, held } = decide::decide(&snapshot, now.wall);
            let worked = !writes.is_empty();
            let done = ctx.perform_all(writes).await;
            let wait = self.written.left(key, ctx.settings.status_interval, now.instant);
            match (status, wait) {
                (Some(_), Some(left)) => next = Next::After(left),
                (Some(effect), None) => {
                    next = Next::OnEvent;
                    ctx.perform(Plan::one(effect)).await?;
                    self.written.told(key, ctx.now().instant);
                }
                (None, _) => next = Next::OnEvent,
            }
            done?;
            if !worked {
                if held {
                    next = next.sooner(Next::After(LOOK_AGAIN));
                }
                break;
            }
        }
        Ok(next)
    }
}
