//! What every controller of the gateway shares.

use super::{
    rate_limit::{Class, Limits, Permit, RateLimiter},
    world::World,
};
use crate::{
    api::names::{CityCode, ProjectKey},
    engine::{
        clock::{Clock, Now},
        error::{Failure, Retry},
        executor::Executor,
        key::{Key, Plane},
        plan::{Applied, Plan, Prepared, Target},
        quarantine::Quarantine,
        queue::{Queue, Urgency},
    },
    metrics::{Metrics, Stage},
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
// Each flag is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a city that nobody uses any more keeps the Namespace.
    pub city_linger: Duration,
    /// Most sets of cities that the namespaces of one project may use.
    pub city_sets_per_project: usize,
    /// After how long a city set's policy without users is deleted.
    pub unused_city_set_after: Duration,
    /// How long a hub Namespace outlives its project namespace.
    pub hub_namespace_retention: Duration,
    /// How long projections outlive write-backs that the hub has lost among many.
    pub projection_retention: Duration,
    /// How long an object must have been an orphan before it is deleted.
    pub orphan_after: Duration,
    /// How often suspects are looked at again, without requests.
    pub sweep_interval: Duration,
    /// After how long a deletion stops waiting for cells.
    pub release_after: Option<Duration>,
    /// Whether a write-back without a controller is refused.
    pub require_owner: bool,
    /// Whether the gateway writes interpreters to the hub.
    pub manage_interpreters: bool,
    /// The largest spec that is carried, in bytes.
    pub max_spec_size: u32,
    /// Shortest time between two status writes of one deployment.
    pub status_interval: Duration,
    /// How fast changes go to the hub.
    pub hub_limits: Limits,
    /// Whether cities must have a Location in the project.
    pub location_checks: bool,
    /// Whether the interfaces' Networks must exist in the project.
    pub networking: bool,
}

/// See the module.
pub struct Context {
    /// The index.
    pub world: Arc<Mutex<World>>,
    /// The queue.
    pub queue: Arc<Queue>,
    /// The only writer.
    pub executor: Executor,
    /// The clock.
    pub clock: Clock,
    /// Settings.
    pub settings: Settings,
    /// Who may write to the hub now.
    pub rate_limiter: Mutex<RateLimiter>,
    /// What is refused as it is.
    pub quarantine: Arc<Quarantine>,
    /// The figures of the process.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

/// Passes that one turn of a key may take: each write may open the next step.
pub const PASSES: usize = 8;

impl Context {
    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Reads a watched object again and keeps its body in the index until its key is settled.
    pub async fn read_body(
        &self,
        target: &Target,
        keep: impl FnOnce(&mut World, kube::core::DynamicObject),
    ) -> Result<bool, Failure> {
        let Some(object) = self.executor.reread(target).await? else {
            return Ok(false);
        };
        keep(&mut self.world.lock(), object);
        Ok(true)
    }
}

/// A turn's permit to write an object to the hub. One that led to no write is given back.
#[derive(Debug)]
pub struct HubPermit<'a> {
    context: &'a Context,
    project: ProjectKey,
    key: Key,
    permit: Permit,
    class: Class,
}

impl<'a> HubPermit<'a> {
    /// None yet.
    pub fn new(context: &'a Context, project: &ProjectKey, key: &Key) -> Self {
        Self {
            context,
            project: project.clone(),
            key: key.clone(),
            permit: Permit::Unasked,
            class: Class::Create,
        }
    }

    /// How it stands.
    pub fn state(&self) -> Permit {
        self.permit
    }

    /// Asks for it, unless there is one.
    pub fn ask(&mut self, class: Class) -> Permit {
        if self.permit != Permit::Granted {
            let mut limiter = self.context.rate_limiter.lock();
            self.class = class;
            self.permit = limiter.acquire(&self.project, &self.key, class, self.context.now());
        }
        self.permit
    }

    /// The write was applied; the next one needs another.
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

/// One turn of one key: what all share, and what came of the turn so far.
#[derive(Debug)]
pub struct Turn<'a> {
    context: &'a Context,
    /// When what led to this turn came in.
    pub woken: Instant,
    wrote: &'a AtomicBool,
}

impl Deref for Turn<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context
    }
}

impl<'a> Turn<'a> {
    /// A turn that begins now with a key that was woken then; `wrote` is set if it asks for any write.
    pub fn new(context: &'a Context, woken: Instant, wrote: &'a AtomicBool) -> Self {
        Self {
            context,
            woken,
            wrote,
        }
    }

    /// Performs a plan.
    pub async fn perform(&self, plan: Plan<Prepared>) -> Result<Plan<Applied>, Failure> {
        if !plan.effects.is_empty() {
            self.wrote.store(true, Ordering::Relaxed);
        }
        self.executor.perform(plan).await
    }

    /// Notes whether the hub refuses what a key in a hub namespace stands for, so that the deployments there say so.
    pub fn heard<T>(&self, key: &Key, hub: &str, result: Result<T, Failure>) -> Result<T, Failure> {
        let refused = |f: &Failure| f.plane == Plane::Hub && f.retry() == Retry::Quarantine;
        let mut world = self.world.lock();
        let news = match &result {
            Ok(_) => world.refused.remove(key).is_some(),
            Err(f) if refused(f) => {
                world.refused.insert(key.clone(), f.message.clone()).as_ref() != Some(&f.message)
            }
            Err(_) => false,
        };
        let keys = if news { world.source_keys(hub) } else { Vec::new() };
        drop(world);
        self.queue.extend(keys, Urgency::Fresh);
        result
    }

    /// Lifts the ban on cities of a hub namespace that were being taken away, and lets those look again that met it.
    pub fn lift_ban(&self, hub: &str, condemned: &[(Arc<str>, CityCode)]) {
        if condemned.is_empty() {
            return;
        }
        let mut world = self.world.lock();
        for entry in condemned {
            world.condemned.remove(entry);
        }
        let keys = world.waiting_keys(hub);
        drop(world);
        self.queue.extend(keys, Urgency::Fresh);
    }

    /// Something has crossed from one plane to the other, of which it was first known at `since`.
    pub fn crossed(&self, stage: Stage, since: Instant) {
        self.metrics.federated(stage, self.now().since(since));
    }
}
