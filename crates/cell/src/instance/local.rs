//! Writes to the Instance itself: finalizers, conditions and gates, one step per pass.

use super::{decide, observe, observe::InstanceSnapshot, quota::Answer};
use crate::context::State;
use fedgate_engine::{
    plan::{Applied, Plan, Requeue},
    reconcile::throttle::Throttle,
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use std::sync::atomic::{AtomicBool, Ordering};

/// The writes of one reconcile.
pub(super) struct Local<'a> {
    progress: &'a Throttle,
    /// The Instance for which quota was requested.
    asked: &'a InstanceSnapshot,
    quota: &'a Answer,
    urgent: AtomicBool,
}

impl<'a> Local<'a> {
    /// `progress` limits the writes of progress.
    pub(super) fn new(progress: &'a Throttle, asked: &'a InstanceSnapshot, quota: &'a Answer) -> Self {
        Self {
            progress,
            asked,
            quota,
            urgent: AtomicBool::new(false),
        }
    }

    /// True if a change of Ready was written that users wait for.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed)
    }
}

/// The basis of a plan for an Instance, for the steps that follow it.
pub(super) struct Basis {
    /// True if the plan changes conditions.
    conditions: bool,
    /// True if it changes Ready in a way that users wait for.
    urgent: bool,
}

impl Reconciler for Local<'_> {
    type State = State;
    type Session = ();
    type Basis = Basis;

    const NAME: &'static str = "instance";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<Basis> {
        let snapshot = observe::observe(run.ctx, run.key);
        // The quota answer does not apply to a successor of the same name.
        let snapshot = snapshot.filter(|now| now.row.uid == self.asked.row.uid);
        let Some(snapshot) = snapshot else {
            return Step::End(Requeue::AwaitChange);
        };
        let now = run.ctx.now();
        let plan = decide::decide(&snapshot, self.quota.verdict.as_ref(), now.wall);
        let urgent = decide::is_urgent(&snapshot, &plan);
        if urgent == Some(false) {
            let rate = run.ctx.settings.progress_rate();
            if let Some(left) = self.progress.wait_from_empty(run.key, rate, now.instant) {
                return Step::End(Requeue::After(left));
            }
        }
        let basis = Basis {
            conditions: urgent.is_some(),
            urgent: urgent == Some(true) && decide::is_seen(&snapshot, &plan),
        };
        Step::Apply(plan, basis)
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, basis: &Basis, _: &Plan<Applied>) -> Flow {
        if basis.conditions {
            let rate = run.ctx.settings.progress_rate();
            self.progress.take(run.key, rate, run.ctx.now().instant);
        }
        if basis.urgent {
            self.urgent.store(true, Ordering::Relaxed);
        }
        Flow::Again
    }
}
