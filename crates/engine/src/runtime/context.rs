//! The state that all controllers of a role share, and the context of one reconcile.

use super::{
    index::{Index, RoleState},
    planes::EngagedPlanes,
    queue::Queue,
    workers::Workers,
};
use crate::{
    clock::{Clock, Now},
    error::Failure,
    executor::{Executor, OnApplied},
    key::Plane,
    metrics::{Family, Holder, Metrics, Stage},
    plan::{Applied, Effect, Plan, Prepared, Target},
    reconcile::quarantine::Quarantine,
};
use kube::core::DynamicObject;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::time::Instant;

/// State that all controllers of a role share; it dereferences to the role's own state.
pub struct Shared<S: RoleState> {
    /// The index.
    pub index: Arc<Mutex<S::Index>>,
    /// The queue.
    pub queue: Arc<Queue>,
    /// The engaged planes.
    pub planes: Arc<EngagedPlanes<S::Index>>,
    /// The only writer.
    pub executor: Executor,
    /// The workers.
    pub workers: Arc<Workers>,
    /// Malformed or rejected objects, which are retried only after a change or after 5 minutes.
    pub quarantine: Arc<Quarantine>,
    /// Projects whose kubeconfig is refused, each with the reason.
    pub refused: Mutex<BTreeMap<String, String>>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
    /// The role's own state.
    pub state: S,
}

impl<S: RoleState> Deref for Shared<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S: RoleState> Shared<S> {
    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Locks the index to read it for people or machines; the time for which it is held is measured.
    pub fn read_index(&self, holder: Holder) -> HeldIndex<'_, S::Index> {
        HeldIndex {
            index: self.index.lock(),
            began: Instant::now(),
            holder,
            metrics: &self.metrics,
        }
    }

    /// Reads a watched object again, and passes it to `keep`, which stores its body in the index until the key is
    /// settled. False if the object does not exist.
    pub async fn read_body(
        &self,
        target: &Target,
        keep: impl FnOnce(&mut S::Index, DynamicObject),
    ) -> Result<bool, Failure> {
        let Some(object) = self.executor.refresh(target, DynamicObject::clone).await? else {
            return Ok(false);
        };
        keep(&mut self.index.lock(), object);
        Ok(true)
    }

    /// Sends a command to the role's main loop.
    pub fn send(&self, command: <S::Index as Index>::Command) {
        self.planes.send(command);
    }

    /// Ends the watches of a plane, and drops the state that is kept for it.
    pub fn disengage(&self, plane: &Plane) {
        self.planes.disengage(plane);
        self.executor.forget(plane);
        self.executor.declare_suspended(plane, false);
        self.quarantine.forget(plane);
        self.workers.take_suspended(plane);
        self.workers.failures().forget(plane);
    }
}

/// The locked index; see [`Shared::read_index`].
pub struct HeldIndex<'a, I> {
    index: MutexGuard<'a, I>,
    began: Instant,
    holder: Holder,
    metrics: &'a Metrics,
}

impl<I> Deref for HeldIndex<'_, I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.index
    }
}

impl<I> Drop for HeldIndex<'_, I> {
    fn drop(&mut self) {
        let labels = [self.holder.as_str()];
        self.metrics
            .observe(Family::IndexLock, &labels, self.began.elapsed());
    }
}

/// Context of one reconcile; it dereferences to the shared state.
pub struct Context<'a, S: RoleState> {
    shared: &'a Shared<S>,
    /// Time at which the cause of this reconcile was observed.
    pub enqueued_at: Instant,
    wrote: &'a AtomicBool,
}

impl<S: RoleState> Clone for Context<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: RoleState> Copy for Context<'_, S> {}

impl<S: RoleState> Deref for Context<'_, S> {
    type Target = Shared<S>;

    fn deref(&self) -> &Shared<S> {
        self.shared
    }
}

impl<'a, S: RoleState> Context<'a, S> {
    /// A reconcile that starts now, of a key enqueued at `enqueued_at`; `wrote` is set once it requests a write.
    pub fn new(shared: &'a Shared<S>, enqueued_at: Instant, wrote: &'a AtomicBool) -> Self {
        Self {
            shared,
            enqueued_at,
            wrote,
        }
    }

    /// Executes a plan.
    pub async fn execute(&self, plan: Plan<Prepared>) -> Result<Plan<Applied>, Failure> {
        self.execute_each(plan, &|_| {}).await
    }

    /// Executes a plan; calls `applied` for each effect as soon as it is applied, whatever becomes of the others.
    pub async fn execute_each(
        &self,
        plan: Plan<Prepared>,
        applied: &OnApplied<'_>,
    ) -> Result<Plan<Applied>, Failure> {
        if !plan.effects.is_empty() || plan.status.is_some() {
            self.wrote.store(true, Ordering::Relaxed);
        }
        let applied = |effect: &Effect| {
            S::log_write(effect);
            applied(effect);
        };
        self.executor.execute_each(plan, &applied).await
    }

    /// Records in the metrics that a change reached the other plane; `since` is the time of its first observation.
    pub fn record_stage(&self, stage: Stage, since: Instant) {
        let (labels, took) = ([stage.as_str()], self.now().since(since));
        self.metrics.observe(Family::FederationSeconds, &labels, took);
    }
}
