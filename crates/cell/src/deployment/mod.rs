//! Deployments: the controller creates the Instances and the network of each, and reports its status
//! (contract: cell.md §2, §10).
//!
//! Enqueued by changes of the deployment, its Instances, its networking objects, and the location of the cell. No code deletes the
//! Instances of a deleted deployment: they have an owner reference, and the garbage collector of the cell deletes them.

pub mod decide;
pub mod observe;
pub mod status;
#[cfg(test)]
mod tests;
pub mod triggers;

use super::{
    conditions::{REFUSES, has_same_cause},
    context::{Context, State},
    index::{tables::TableId, watches::Command},
};
use decide::DeploymentDecision;
use fedgate_engine::{
    error::{Category, Failure},
    key::Key,
    plan::{Applied, Effect, Endpoint, Plan, Requeue},
    random::HashMap,
    reconcile::throttle::{Rate, Throttle},
    runtime::driver::{Flow, Reconcile, Reconciler, Step},
};
use observe::Stalled;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// The deployment controller.
#[derive(Debug, Default)]
pub struct Deployments {
    /// Time of the last status write of each deployment.
    pub(super) written: Throttle,
    /// The words of the cell's API server when it refused an object of a deployment, until it takes all of them.
    refused: Mutex<HashMap<Key, String>>,
    /// Rollouts of which every step waits for Instances.
    stalled: Mutex<HashMap<Key, StalledRollout>>,
}

/// A rollout of which every step waits for Instances.
#[derive(Debug, Clone, Copy)]
struct StalledRollout {
    /// Generation of the deployment.
    generation: i64,
    /// Least number of steps that were left.
    steps: usize,
    /// Since when.
    since: Instant,
}

impl Deployments {
    /// Remembers since when a rollout makes no progress: no step can be taken, and no fewer are left.
    fn note_stall(&self, key: &Key, generation: i64, stalled: Option<usize>, now: Instant) {
        let mut all = self.stalled.lock();
        let Some(steps) = stalled else {
            all.remove(key);
            return;
        };
        let had = all
            .get(key)
            .filter(|had| had.generation == generation && had.steps <= steps);
        let since = had.map_or(now, |had| had.since);
        let steps = had.map_or(steps, |had| had.steps);
        let stalled = StalledRollout {
            generation,
            steps,
            since,
        };
        all.insert(key.clone(), stalled);
    }
}

/// Requeue interval while quota is unavailable: not every cause reports its end. A reconcile sends no request to any
/// server for that.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

impl Reconciler for Deployments {
    type State = State;
    /// The refusal of a write, which is returned to the queue once the status says it.
    type Session = Option<Failure>;
    type Basis = ();

    const NAME: &'static str = "deployment";

    fn decide(&self, run: &mut Reconcile<'_, Self>) -> Step<()> {
        let Some(mut snapshot) = observe::observe(run.ctx, run.key) else {
            self.written.forget(run.key);
            self.refused.lock().remove(run.key);
            self.stalled.lock().remove(run.key);
            return Step::End(Requeue::AwaitChange);
        };
        if let Some(project) = &snapshot.unwatched {
            run.ctx.send(Command::ConnectProject(project.clone()));
        }
        let now = run.ctx.now();
        snapshot.refused = self.refused.lock().get(run.key).cloned();
        let generation = snapshot.row.digest.generation;
        let stalled = self.stalled.lock().get(run.key).copied();
        snapshot.stalled = stalled.filter(|stalled| stalled.generation == generation).map(
            |StalledRollout { steps, since, .. }| Stalled {
                steps,
                time: now.instant.saturating_duration_since(since),
            },
        );
        let available = snapshot.mark_available(now.wall);
        let DeploymentDecision {
            mut writes,
            status,
            held,
            stalled,
            due,
        } = decide::decide(&snapshot, now.wall);
        self.note_stall(run.key, generation, stalled, now.instant);
        if run.session.is_some() {
            writes.clear();
        }
        let mut next = if held && writes.is_empty() {
            Requeue::After(LOOK_AGAIN)
        } else {
            Requeue::AwaitChange
        };
        for wait in available.into_iter().chain(due) {
            next = next.earlier(Requeue::After(wait));
        }
        let rate = Rate::new(run.ctx.settings.status_interval);
        let status = status.filter(|effect| {
            let write_kind = decide::write_kind(&snapshot, effect);
            let wait = self.written.wait(run.key, rate, write_kind, now.instant);
            next = next.earlier(wait.map_or(Requeue::AwaitChange, Requeue::After));
            wait.is_none()
        });
        match run.session.take_if(|_| status.is_none()) {
            Some(failure) => Step::Fail(failure),
            None => Step::Apply(Plan::independent(writes, status, next), ()),
        }
    }

    fn applied(&self, ctx: &Context<'_>, key: &Key, effect: &Effect) {
        if effect.endpoint == Endpoint::Status {
            let rate = Rate::new(ctx.settings.status_interval);
            self.written.take(key, rate, ctx.now().instant);
        }
    }

    fn executed(&self, run: &mut Reconcile<'_, Self>, (): &(), plan: &Plan<Applied>) -> Flow {
        let is_write = |effect: &Effect| effect.endpoint == Endpoint::Main;
        if run.session.is_none() && plan.effects.iter().any(is_write) {
            self.refused.lock().remove(run.key);
        }
        if plan.effects.is_empty() {
            Flow::End(plan.next)
        } else {
            Flow::Again
        }
    }

    async fn failed(
        &self,
        run: &mut Reconcile<'_, Self>,
        (): &(),
        failure: Failure,
    ) -> Result<Flow, Failure> {
        // A status that is refused cannot say so.
        let is_of_status = failure.object.starts_with(TableId::Deployments.kind().as_str());
        if failure.category != Category::Refused || is_of_status || run.session.is_some() {
            return Err(failure);
        }
        let what = failure.object.rsplit('/').next().unwrap_or_default();
        let words = format!("{REFUSES} {what}: {}", failure.message);
        let mut all = self.refused.lock();
        if all.get(run.key).is_none_or(|old| !has_same_cause(old, &words)) {
            all.insert(run.key.clone(), words);
        }
        run.session = Some(failure);
        Ok(Flow::Again)
    }
}
