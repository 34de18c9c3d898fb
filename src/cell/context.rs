//! What every controller of a cell shares.

use super::{index::CellIndex, instance_types::InstanceTypes, provider};
use fedgate_api::names::ProjectKey;
use fedgate_engine::throttle::Rate;
use fedgate_engine::{
    clock::{Clock, Now},
    error::Failure,
    executor::Executor,
    key::Plane,
    metrics::Metrics,
    plan::{Applied, Effect, Plan, Prepared, Target},
    quarantine::Quarantine,
    queue::Queue,
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

/// A cell's own settings, from flags.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How Pods are run; `None` leaves Instances to another provider.
    pub provider: Option<provider::settings::Settings>,
    /// Sizes of the instance types.
    pub sizes: InstanceTypes,
    /// Whether quota is asked for.
    pub quota: bool,
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
}

impl Settings {
    /// Limits the writes of an Instance's progress: most steps are over sooner, so that several become one write.
    pub fn progress_rate(&self) -> Rate {
        Rate::single(self.status_interval * 2)
    }

    /// Limits the writes of an Instance's progress to its copy: each costs the hub, which all cells share, two writes.
    pub fn copy_rate(&self) -> Rate {
        Rate::single(self.status_interval * 4)
    }
}

/// See the module.
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
    /// What is refused as it is.
    pub quarantine: Arc<Quarantine>,
    /// The figures of the process.
    pub metrics: Arc<Metrics>,
    /// Whether a plane is known not to answer.
    pub away: Box<dyn Fn(&Plane) -> bool + Send + Sync>,
    /// Projects whose claims are wanted.
    pub wanted: mpsc::UnboundedSender<ProjectKey>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

/// Passes that one turn of a key may take: each write may open the next step.
pub const MAX_PASSES: usize = 8;

/// So many writes that do not depend on each other are under way at a time.
const AT_ONCE: usize = 16;

impl Shared {
    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Asks for the claims of a project, and so for the way to it.
    pub fn request_project(&self, project: &ProjectKey) {
        // Fails only while the process ends.
        let _ = self.wanted.send(project.clone());
    }
}

/// Reasons of writes that change what there is, and not only what is said of it.
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

/// One line for each step that was done.
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

/// One turn of one key: what all share, and whether the turn has asked for a write.
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
    /// A turn that begins now; `wrote` is set if it asks for any write.
    pub fn new(shared: &'a Shared, wrote: &'a AtomicBool) -> Self {
        Self { shared, wrote }
    }

    /// Performs a plan.
    pub async fn execute(&self, plan: Plan<Prepared>) -> Result<Plan<Applied>, Failure> {
        if !plan.effects.is_empty() {
            self.wrote.store(true, Ordering::Relaxed);
        }
        let plan = self.executor.execute(plan).await?;
        plan.effects.iter().for_each(log);
        Ok(plan)
    }

    /// Performs writes of which none depends on another; the first failure is returned when all have ended.
    pub async fn perform_all(&self, effects: Vec<Effect>) -> Result<(), Failure> {
        let writes = effects.into_iter().map(|effect| self.execute(Plan::one(effect)));
        let ends: Vec<_> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        ends.into_iter().try_for_each(|end| end.map(drop))
    }
}
