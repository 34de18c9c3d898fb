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
    plan::{Applied, Plan, Requeue},
    reconcile::throttle::{Rate, Throttle},
    runtime::driver::{Flow, Reconciler, Step},
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

/// The basis of a plan for a deployment, for the steps that follow it.
#[derive(Debug)]
pub struct Basis {
    /// True if the plan writes more than the status.
    works: bool,
    /// When the deployment is reconciled again if it writes the status alone.
    next: Requeue,
}

impl Reconciler for Deployments {
    type State = State;
    type Session = ();
    type Basis = Basis;

    const NAME: &'static str = "deployment";

    fn begin(&self, _: &Context<'_>, _: &Key) {}

    fn decide(&self, ctx: &Context<'_>, key: &Key, (): &mut ()) -> Step<Basis> {
        let Some(snapshot) = observe::observe(ctx, key) else {
            self.written.forget(key);
            return Step::End(Requeue::AwaitChange);
        };
        if let Some(project) = &snapshot.unwatched {
            request_project(ctx, project);
        }
        let now = ctx.now();
        let Decision { writes, status, held } = decide::decide(&snapshot, now.wall);
        let mut next = if held && writes.is_empty() {
            Requeue::After(LOOK_AGAIN)
        } else {
            Requeue::AwaitChange
        };
        let works = !writes.is_empty();
        let rate = Rate::new(ctx.settings.status_interval);
        let status = status.filter(|effect| {
            let write_kind = decide::write_kind(&snapshot, effect);
            let wait = self.written.wait(key, rate, write_kind, now.instant);
            next = next.earlier(wait.map_or(Requeue::AwaitChange, Requeue::After));
            wait.is_none()
        });
        Step::Apply(Plan::independent(writes, status, next), Basis { works, next })
    }

    fn executed(
        &self,
        ctx: &Context<'_>,
        key: &Key,
        (): &mut (),
        basis: &Basis,
        plan: &Plan<Applied>,
    ) -> Flow {
        if plan.status.is_some() {
            let rate = Rate::new(ctx.settings.status_interval);
            self.written.take(key, rate, ctx.now().instant);
        }
        if basis.works {
            Flow::Again
        } else {
            Flow::End(basis.next)
        }
    }

    fn message(&self, _: &Basis) -> Option<&'static str> {
        None
    }
}
