//! Deployments: each gets its Instances and its network, and says how they are (contract: cell.md §2, §10).
//!
//! Woken by the deployment, its Instances, its networking objects, and by the place of the cell.

pub mod decide;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;

use super::context::{PASSES, Turn};
use crate::engine::{
    chance::HashMap,
    error::Failure,
    key::Key,
    plan::{Next, Plan},
};
use decide::Decision;
use parking_lot::Mutex;
use tokio::time::Instant;

/// See the module.
#[derive(Debug, Default)]
pub struct Deployments {
    /// When the status of a deployment was last written.
    written: Mutex<HashMap<Key, Instant>>,
}

impl Deployments {
    /// One turn of a deployment's key.
    pub async fn reconcile(&self, ctx: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        let mut next = Next::OnEvent;
        for _ in 0..PASSES {
            let Some(snapshot) = observe::observe(ctx, key) else {
                self.written.lock().remove(key);
                return Ok(Next::OnEvent);
            };
            let now = ctx.now();
            let Decision { writes, status } = decide::decide(&snapshot, now.wall);
            let worked = !writes.is_empty();
            let done = ctx.perform_all(writes).await;
            let wait = status.as_ref().and_then(|_| {
                let written = self.written.lock().get(key).copied()?;
                let left = ctx.settings.status_interval.saturating_sub(now.since(written));
                (!left.is_zero()).then_some(left)
            });
            match (status, wait) {
                (Some(_), Some(left)) => next = Next::After(left),
                (Some(effect), None) => {
                    next = Next::OnEvent;
                    ctx.perform(Plan::one(effect)).await?;
                    self.written.lock().insert(key.clone(), ctx.now().instant);
                }
                (None, _) => next = Next::OnEvent,
            }
            done?;
            if !worked {
                break;
            }
        }
        Ok(next)
    }

    /// Forgets what no longer matters; called every few seconds.
    pub fn prune(&self, interval: std::time::Duration, now: Instant) {
        let mut written = self.written.lock();
        written.retain(|_, at| now.saturating_duration_since(*at) < interval);
        crate::engine::room::give_back(&mut written);
    }
}
