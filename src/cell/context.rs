//! State that all controllers of a cell share.

use super::{index::CellIndex, instance_types::InstanceTypes, provider};
use fedgate_api::names::ProjectKey;
use fedgate_engine::reconcile::throttle::Rate;
use fedgate_engine::{
    clock::{Clock, Now},
    error::Failure,
    executor::Executor,
    key::Plane,
    metrics::Metrics,
    plan::{Applied, Effect, Plan, Prepared, Target},
    reconcile::quarantine::Quarantine,
    runtime::queue::Queue,
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// The cell's settings, from flags.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How Pods are run; `None` leaves Instances to another provider.
    pub provider: Option<provider::settings::Settings>,
    /// Sizes of the instance types.
    pub sizes: InstanceTypes,
    /// True if quota is claimed.
    pub quota: bool,
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
}

impl Settings {
    /// Limits the writes of an Instance's progress: most steps are over sooner, so that several become one write.
    pub fn progress_rate(&self) -> Rate {
        Rate::single(self.status_interval * 2)
    }

    /// Limits the writes of an Instance's progress to its copy: each costs the hub, which all cells share, two
    /// writes.
    pub fn copy_rate(&self) -> Rate {
        Rate::single(self.status_interval * 4)
    }
}

/// The shared state.
pub struct Shared {
    /// The index.
    pub index: Arc<Mutex<CellIndex>>,
    /// The queue.
    pub queue: Arc<Queue>,
    /// The only writer.
    pub executor: Executor,
    /// The clock.
    pub clock: Clock,
    /// Settings.
    pub settings: Settings,
    /// Objects that are rejected in their present state.
    pub quarantine: Arc<Quarantine>,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Returns true if a plane is known to be down.
    pub away: Box<dyn Fn(&Plane) -> bool + Send + Sync>,
    /// Projects whose claims are wanted.
    pub wanted: mpsc::UnboundedSender<ProjectKey>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

/// Maximum number of passes in one reconcile: each write may enable the next step.
pub const MAX_PASSES: usize = 8;

/// Maximum number of independent writes in flight.
const AT_ONCE: usize = 16;

impl Shared {
    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Requests the claims of a project, and thereby its connection.
    pub fn request_project(&self, project: &ProjectKey) {
        // Fails only while the process ends.
        let _ = self.wanted.send(project.clone());
    }
}

/// Reasons of writes that change more than a status.
const STEPS: [&str; 19] = [
    "instance_missing",
    "instance_stray",
    "instance_surplus",
    "instance_fix_forward",
    "instance_roll",
    "instance_suspension",
    "instance_gates",
    "instance_network",
    "instance_released",
    "network_binding",
    "network_binding_unused",
    "quota_claim_anew",
    "pod",
    "pod_replaced",
    "pod_suspended",
    "pod_stopped",
    "write_back_leftover",
    "release_recorded",
    "release_done",
];

/// Logs one line for each executed step.
fn log(effect: &Effect) {
    let Effect { target, reason, .. } = effect;
    if STEPS.contains(reason) {
        let Target {
            plane,
            namespace,
            name,
            ..
        } = target;
        tracing::info!(%plane, kind = %target.kind(), namespace, name, reason, "done");
    }
}

/// Context of one reconcile: the shared state, and whether the reconcile has requested a write.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    shared: &'a Shared,
    wrote: &'a AtomicBool,
}

impl Deref for Context<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

impl<'a> Context<'a> {
    /// Starts a reconcile; `wrote` is set if it requests any write.
    pub fn new(shared: &'a Shared, wrote: &'a AtomicBool) -> Self {
        Self { shared, wrote }
    }

    /// Executes a plan.
    pub async fn execute(&self, plan: Plan<Prepared>) -> Result<Plan<Applied>, Failure> {
        if !plan.effects.is_empty() {
            self.wrote.store(true, Ordering::Relaxed);
        }
        let plan = self.executor.execute(plan).await?;
        plan.effects.iter().for_each(log);
        Ok(plan)
    }

    /// Executes independent writes; returns the first failure after all have ended.
    pub async fn perform_all(&self, effects: Vec<Effect>) -> Result<(), Failure> {
        let writes = effects.into_iter().map(|effect| self.execute(Plan::one(effect)));
        let ends: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        ends.into_iter().try_for_each(|end| end.map(drop))
    }
}
