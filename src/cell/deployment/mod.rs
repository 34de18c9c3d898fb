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

use super::context::{Context, State, request_project};
use decide::Decision;
use fedgate_engine::{
    key::Key,
    plan::{Applied, Effect, Endpoint, Plan, Requeue},
    reconcile::throttle::{Rate, Throttle},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
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

impl Reconciler for Deployments {
    type State = State;
    type Session = ();
    type Basis = ();

    const NAME: &'static str = "deployment";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<()> {
        let Some(snapshot) = observe::observe(run.ctx, run.key) else {
            self.written.forget(run.key);
            return Step::End(Requeue::AwaitChange);
        };
        if let Some(project) = &snapshot.unwatched {
            request_project(run.ctx, project);
        }
        let now = run.ctx.now();
        let Decision { writes, status, held } = decide::decide(&snapshot, now.wall);
        let mut next = if held && writes.is_empty() {
            Requeue::After(LOOK_AGAIN)
        } else {
            Requeue::AwaitChange
        };
        let rate = Rate::new(run.ctx.settings.status_interval);
        let status = status.filter(|effect| {
            let write_kind = decide::write_kind(&snapshot, effect);
            let wait = self.written.wait(run.key, rate, write_kind, now.instant);
            next = next.earlier(wait.map_or(Requeue::AwaitChange, Requeue::After));
            wait.is_none()
        });
        Step::Apply(Plan::independent(writes, status, next), ())
    }

    fn applied(&self, ctx: &Context<'_>, key: &Key, effect: &Effect) {
        if effect.endpoint == Endpoint::Status {
            let rate = Rate::new(ctx.settings.status_interval);
            self.written.take(key, rate, ctx.now().instant);
        }
    }

    fn executed(&self, _: &mut Reconcile<'_, Self>, (): &(), plan: &Plan<Applied>) -> Flow {
        if plan.effects.is_empty() {
            Flow::End(plan.next)
        } else {
            Flow::Again
        }
    }

    fn message(&self, (): &()) -> Option<&'static str> {
        None
    }
}
