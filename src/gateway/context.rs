//! What every controller of the gateway shares.

use super::world::World;
use crate::engine::{
    clock::{Clock, Now},
    error::{Failure, Retry},
    executor::Executor,
    key::Key,
    plan::{Next, Target},
    queue::{Outcome, Queue},
};
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// The gateway's own settings, from flags.
// Each flag is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a city that nobody uses any more keeps the Namespace.
    pub city_linger: Duration,
    /// After how long a city set's policy without users is deleted.
    pub unused_city_set_after: Duration,
    /// How long a hub Namespace outlives its project namespace.
    pub hub_namespace_retention: Duration,
    /// How long an object must have been an orphan before it is deleted.
    pub orphan_after: Duration,
    /// How often everything held is looked at again, without requests.
    pub sweep_interval: Duration,
    /// After how long a deletion stops waiting for cells.
    pub release_after: Option<Duration>,
    /// Whether a write-back without a controller is refused.
    pub require_owner: bool,
    /// Whether the gateway writes interpreters to the hub.
    pub manage_interpreters: bool,
    /// Shortest time between two status writes of one deployment.
    pub status_interval: Duration,
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
    /// The figures of the process.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Context")
    }
}

/// A refused object is tried again after this, unless it changes.
pub const QUARANTINE: Duration = Duration::from_mins(5);

/// Passes that one turn of a key may take: each write may open the next step.
pub const PASSES: usize = 8;

impl Context {
    /// Reads the clock.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Reads an object again and keeps its body in the index until its key is settled.
    pub async fn read_body(
        &self,
        target: &Target,
        keep: impl FnOnce(&mut World, kube::core::DynamicObject),
    ) -> Result<bool, Failure> {
        let Some(object) = self.executor.get(target).await? else {
            return Ok(false);
        };
        keep(&mut self.world.lock(), object);
        Ok(true)
    }
}

/// What the queue is told of a turn, and what the log says of it.
pub fn outcome(key: &Key, result: Result<Next, Failure>) -> Outcome {
    match result {
        Ok(Next::OnEvent) => Outcome::Settled,
        Ok(Next::After(after)) => Outcome::Again(after),
        Err(failure) => {
            let category = failure.category.as_str();
            match failure.retry() {
                Retry::Backoff(at_least) => {
                    tracing::debug!(%key, category, error = %failure, "trying again");
                    Outcome::Failed { at_least }
                }
                Retry::AwaitChange => {
                    tracing::debug!(%key, category, error = %failure, "waiting for a change");
                    Outcome::Settled
                }
                Retry::Quarantine => {
                    tracing::warn!(%key, category, error = %failure, "refused; it is tried again when it changes, or in five minutes");
                    Outcome::Again(QUARANTINE)
                }
            }
        }
    }
}
