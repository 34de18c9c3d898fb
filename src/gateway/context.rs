//! State that all controllers of the gateway share.

use super::{
    index::GatewayIndex,
    rate_limit::{Class, Limits, Permit, RateLimiter},
};
use fedgate_api::names::{CityCode, ProjectKey};
use fedgate_engine::{
    clock::{Clock, Now},
    error::{Failure, Retry},
    executor::Executor,
    key::{Key, Plane},
    metrics::{Metrics, Stage},
    plan::{Applied, Plan, Prepared, Target},
    reconcile::quarantine::Quarantine,
    runtime::queue::{Priority, Queue},
};
use parking_lot::Mutex;
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// The gateway's own settings, from flags.
// Each flag is an independent switch.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long the Namespace keeps a city that no deployment uses any more.
    pub city_linger: Duration,
    /// Maximum number of city sets that the namespaces of one project may use.
    pub city_sets_per_project: usize,
    /// Time after which a city set's policy without users is deleted.
    pub unused_city_set_after: Duration,
    /// How long a hub Namespace is kept after its project namespace is deleted.
    pub hub_namespace_retention: Duration,
    /// How long projections are kept after the hub has lost their write-backs among many.
    pub projection_retention: Duration,
    /// How long an object must have been an orphan before it is deleted.
    pub orphan_after: Duration,
    /// Interval at which suspected objects are reconciled again, without requests.
    pub sweep_interval: Duration,
    /// Time after which a deletion no longer waits for cells; `None` waits forever.
    pub release_after: Option<Duration>,
    /// True if write-backs without a controller are rejected.
    pub require_owner: bool,
    /// True if the gateway writes interpreters to the hub.
    pub manage_interpreters: bool,
    /// Maximum size of a spec that is synced to the hub, in bytes.
    pub max_spec_size: u32,
    /// Interval at which each object may have one more status write.
    pub status_interval: Duration,
    /// Rate limits of writes to the hub.
    pub hub_limits: Limits,
    /// True if cities must have a Location in the project.
    pub location_checks: bool,
    /// True if the interfaces' Networks must exist in the project.
    pub networking: bool,
}

/// The shared state; see the module.
pub struct Shared {
    /// The index.
    pub index: Arc<Mutex<GatewayIndex>>,
    /// The queue.
    pub queue: Arc<Queue>,
    /// The executor, the only writer.
    pub executor: Executor,
    /// The clock.
    pub clock: Clock,
    /// Settings.
    pub settings: Settings,
    /// Rate limiter of writes to the hub.
    pub rate_limiter: Mutex<RateLimiter>,
    /// Malformed or rejected objects, which are retried only after a change or after 5 minutes.
    pub quarantine: Arc<Quarantine>,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

/// Maximum number of iterations of one reconcile: each write may enable the next step.
pub const MAX_PASSES: usize = 8;

impl Shared {
    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Reads a watched object again, and passes it to `keep`, which stores its body in the index until the key is
    /// settled.
    pub async fn read_body(
        &self,
        target: &Target,
        keep: impl FnOnce(&mut GatewayIndex, kube::core::DynamicObject),
    ) -> Result<bool, Failure> {
        let Some(object) = self.executor.refresh(target).await? else {
            return Ok(false);
        };
        keep(&mut self.index.lock(), object);
        Ok(true)
    }
}

/// A reconcile's permit to write an object to the hub. A granted permit without a write is refunded.
#[derive(Debug)]
pub struct HubPermit<'a> {
    context: &'a Shared,
    project: ProjectKey,
    key: Key,
    permit: Permit,
    class: Class,
}

impl<'a> HubPermit<'a> {
    /// A permit that is not requested yet.
    pub fn new(context: &'a Shared, project: &ProjectKey, key: &Key) -> Self {
        Self {
            context,
            project: project.clone(),
            key: key.clone(),
            permit: Permit::Unasked,
            class: Class::Create,
        }
    }

    /// State of the permit.
    pub fn state(&self) -> Permit {
        self.permit
    }

    /// Requests the permit unless it is granted already.
    pub fn ask(&mut self, class: Class) -> Permit {
        if self.permit != Permit::Granted {
            let mut limiter = self.context.rate_limiter.lock();
            self.class = class;
            self.permit = limiter.acquire(&self.project, &self.key, class, self.context.now());
        }
        self.permit
    }

    /// The write was applied; the next write needs a new permit.
    pub fn used(&mut self) {
        self.permit = Permit::Unasked;
    }
}

impl Drop for HubPermit<'_> {
    fn drop(&mut self) {
        if self.permit == Permit::Granted {
            let mut limiter = self.context.rate_limiter.lock();
            limiter.refund(&self.project, &self.key, self.class);
        }
    }
}

/// A reconcile of a key: the shared state, and the result so far.
#[derive(Debug)]
pub struct Context<'a> {
    shared: &'a Shared,
    /// Time at which the cause of this reconcile was observed.
    pub enqueued_at: Instant,
    wrote: &'a AtomicBool,
}

impl Deref for Context<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.shared
    }
}

impl<'a> Context<'a> {
    /// A reconcile that starts now, of a key enqueued at `enqueued`; `wrote` is set once the reconcile requests a
    /// write.
    pub fn new(shared: &'a Shared, enqueued: Instant, wrote: &'a AtomicBool) -> Self {
        Self {
            shared,
            enqueued_at: enqueued,
            wrote,
        }
    }

    /// Executes a plan.
    pub async fn execute(&self, plan: Plan<Prepared>) -> Result<Plan<Applied>, Failure> {
        if !plan.effects.is_empty() {
            self.wrote.store(true, Ordering::Relaxed);
        }
        self.executor.execute(plan).await
    }

    /// Records whether the hub rejects the object of a key in a hub namespace, and enqueues the deployments there,
    /// whose conditions report the rejection.
    pub fn record_refusal<T>(&self, key: &Key, hub: &str, result: Result<T, Failure>) -> Result<T, Failure> {
        let refused = |f: &Failure| f.plane == Plane::Hub && f.retry() == Retry::Quarantine;
        let mut index = self.index.lock();
        let news = match &result {
            Ok(_) => index.refused.remove(key).is_some(),
            Err(f) if refused(f) => {
                index.refused.insert(key.clone(), f.message.clone()).as_ref() != Some(&f.message)
            }
            Err(_) => false,
        };
        let keys = if news { index.source_keys(hub) } else { Vec::new() };
        drop(index);
        self.queue.extend(keys, Priority::Fresh);
        result
    }

    /// Clears `withdrawing` for these cities of a hub namespace, and enqueues the deployments that waited for it.
    pub fn clear_withdrawing(&self, hub: &str, withdrawing: &[(Arc<str>, CityCode)]) {
        if withdrawing.is_empty() {
            return;
        }
        let mut index = self.index.lock();
        for entry in withdrawing {
            index.withdrawing.remove(entry);
        }
        let keys = index.waiting_keys(hub);
        drop(index);
        self.queue.extend(keys, Priority::Fresh);
    }

    /// Records in the metrics that a change reached the other plane; `since` is the time of its first observation.
    pub fn record_stage(&self, stage: Stage, since: Instant) {
        self.metrics.federated(stage, self.now().since(since));
    }
}
