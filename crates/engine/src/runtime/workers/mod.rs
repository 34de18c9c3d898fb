//! Workers: dequeue keys, run their controller, report the outcome to the queue.

use crate::{
    clock::Clock,
    error::{Category, Class, Failure},
    key::{Key, Plane},
    metrics::{Family, Metrics, ReconcileResult},
    plan::Requeue,
    reconcile::{quarantine::Quarantine, throttle},
    runtime::{
        failures::{Attempt, Cause, Failures, Recorded, log},
        queue::{Dequeued, Mark, Outcome, Queue},
    },
};
use fedgate_api::names::ProjectKey;
use futures::FutureExt;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::Instant,
};

/// A reconcile that lasts longer than this releases its worker slot.
const SLOT_TIMEOUT: Duration = Duration::from_millis(500);

/// Time for in-flight reconciles to finish at shutdown: together with the release of the Lease, a standby takes over
/// within 2 s.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the controller of a key.
pub trait Dispatch: Send + Sync + 'static {
    /// The name of the controller that reconciles a key, for metrics and logs.
    fn controller(&self, key: &Key) -> &'static str;

    /// Reconciles a key that was enqueued at `enqueued_at`; sets `wrote` if it requests any write.
    fn reconcile(
        &self,
        key: &Key,
        enqueued_at: Instant,
        wrote: &AtomicBool,
    ) -> impl Future<Output = Result<Requeue, Failure>> + Send;

    /// The cause of a failure that holds back the calls of other keys too.
    fn cause(&self, _failure: &Failure) -> Option<Cause> {
        None
    }

    /// The project that a key belongs to, for the queue and for logs.
    fn project(&self, key: &Key) -> Option<ProjectKey>;
}

/// The worker pool of a role.
#[derive(Debug)]
pub struct Workers {
    queue: Arc<Queue>,
    quarantine: Arc<Quarantine>,
    metrics: Arc<Metrics>,
    clock: Clock,
    places: usize,
    stranded: Mutex<BTreeSet<Key>>,
    /// Keys that wait for the end of a suspension, by the suspended plane.
    suspended: Mutex<BTreeMap<Plane, BTreeSet<Key>>>,
    failures: Failures,
}

impl Workers {
    /// A pool with `places` worker slots.
    pub fn new(
        queue: Arc<Queue>,
        quarantine: Arc<Quarantine>,
        metrics: Arc<Metrics>,
        clock: Clock,
        places: usize,
    ) -> Self {
        Self {
            queue,
            quarantine,
            metrics,
            clock,
            places,
            stranded: Mutex::default(),
            suspended: Mutex::default(),
            failures: Failures::default(),
        }
    }

    /// The last failure of each key whose last reconcile failed.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Reconciles due keys until the queue is closed; then awaits the reconciles in flight, and abandons them after
    /// [`DRAIN_TIMEOUT`]. A reconcile that waits long for a plane releases its slot, so that planes that do not answer
    /// block no other key; the queue limits how many keys of a tenant run at a time.
    pub async fn run<C: Dispatch>(self: Arc<Self>, controllers: Arc<C>) {
        let places = Arc::new(Semaphore::new(self.places));
        let mut reconciles = JoinSet::new();
        while let Ok(place) = places.clone().acquire_owned().await
            && let Some(taken) = self.queue.next().await
        {
            while reconciles.try_join_next().is_some() {}
            let owner = controllers.project(&taken.key);
            if !self.queue.assign(&taken, owner.as_ref()) {
                continue;
            }
            reconciles.spawn(self.clone().reconcile(controllers.clone(), taken, place));
        }
        let last_reconciles = async { while reconciles.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, last_reconciles)
            .await
            .is_err()
        {
            tracing::warn!("a plane does not answer; its requests under way are cancelled");
            // Awaits the cancelled tasks as well: the writes that they abandon decide whether the Lease may be
            // released.
            reconciles.shutdown().await;
        }
    }

    async fn reconcile<C: Dispatch>(
        self: Arc<Self>,
        controllers: Arc<C>,
        Dequeued { key, since }: Dequeued,
        place: OwnedSemaphorePermit,
    ) {
        let controller = controllers.controller(&key);
        let measured = self.metrics.reconcile(controller, self.clock.now().since(since));
        let wrote = AtomicBool::new(false);
        let work = AssertUnwindSafe(controllers.reconcile(&key, since, &wrote)).catch_unwind();
        let mut work = std::pin::pin!(work);
        let end = if let Ok(end) = tokio::time::timeout(SLOT_TIMEOUT, &mut work).await {
            end
        } else {
            drop(place);
            work.await
        };
        let end = end.unwrap_or_else(|_| {
            self.metrics.count(Family::Panics, &[controller]);
            let (namespace, name) = (&*key.namespace, &*key.name);
            tracing::error!(plane = %key.plane, controller, kind = %key.kind, namespace, name, %key, "a controller panicked; the key is retried");
            Err(defect(&key))
        });
        let outcome = outcome(&key, end.as_ref(), &self.quarantine);
        match &end {
            Ok(_) => {
                if let Some(settled) = self.failures.succeeded(&key, self.clock.now()) {
                    let project = controllers.project(&key);
                    log::settled(
                        &key,
                        project.as_ref().map(ProjectKey::as_str),
                        controller,
                        settled,
                    );
                }
            }
            Err(failure) => self.failed(&*controllers, controller, &key, failure, outcome),
        }
        let result = match outcome {
            Ok(Requeue::AwaitChange) => ReconcileResult::Success,
            Ok(Requeue::After(_)) => ReconcileResult::RequeueAfter,
            Err(_) => ReconcileResult::Error,
        };
        measured.end(result, wrote.load(Ordering::Relaxed));
        self.queue.done(&key, outcome);
    }

    /// Records a failed reconcile, before the queue gives the key to another worker.
    fn failed<C: Dispatch>(
        &self,
        controllers: &C,
        controller: &'static str,
        key: &Key,
        failure: &Failure,
        outcome: Outcome,
    ) {
        if failure.category != Category::NotLeader {
            let labels = [controller, failure.plane.kind(), failure.category.as_str()];
            self.metrics.count(Family::FailedReconciles, &labels);
        }
        if failure.category == Category::ProjectSuspended {
            let mut suspended = self.suspended.lock();
            suspended
                .entry(failure.plane.clone())
                .or_default()
                .insert(key.clone());
        } else if failure.needs_sweep() {
            self.stranded.lock().insert(key.clone());
        }
        let next = match outcome {
            Ok(Requeue::AwaitChange) => None,
            Ok(Requeue::After(after)) => Some(after),
            Err(at_least) => Some(self.queue.retry_delay(key, at_least)),
        };
        let attempt = Attempt {
            key,
            controller,
            failure,
            cause: controllers.cause(failure),
            next,
        };
        let is_news = failure.category == Category::Refused && self.quarantine.insert(key, failure.category);
        log::attempt(&attempt, is_news);
        let Recorded { cause, stuck } = self.failures.failed(attempt, self.clock.now());
        if let Some(stuck) = stuck {
            let project = controllers.project(key);
            log::stuck(key, project.as_ref().map(ProjectKey::as_str), &stuck);
        }
        let mark = Mark {
            controller,
            category: failure.category,
            cause,
        };
        self.queue.mark(key, mark);
    }

    /// Takes the keys that wait for a change that may arrive without an event.
    pub fn take_parked(&self) -> BTreeSet<Key> {
        std::mem::take(&mut *self.stranded.lock())
    }

    /// Takes the keys that wait for the end of a plane's suspension.
    pub fn take_suspended(&self, plane: &Plane) -> BTreeSet<Key> {
        self.suspended.lock().remove(plane).unwrap_or_default()
    }

    /// Takes one of these keys.
    pub fn take_one_suspended(&self, plane: &Plane) -> Option<Key> {
        let mut suspended = self.suspended.lock();
        let keys = suspended.get_mut(plane)?;
        let key = keys.pop_first();
        if keys.is_empty() {
            suspended.remove(plane);
        }
        key
    }

    /// Number of parked keys.
    #[cfg(any(test, feature = "testing"))]
    pub fn entry_count(&self) -> usize {
        let suspended: usize = self.suspended.lock().values().map(BTreeSet::len).sum();
        self.stranded.lock().len() + suspended
    }
}

/// The failure of a reconcile that panicked.
fn defect(key: &Key) -> Failure {
    let object = format!("{} {}/{}", key.kind, key.namespace, key.name);
    let message = "the controller panicked; the log has the place";
    Failure::new(&key.plane, "reconcile", object, Category::Defect, message)
}

/// Maps the result of a reconcile to the queue's outcome. A success ends a rejection in `refused`.
pub fn outcome(key: &Key, result: Result<&Requeue, &Failure>, refused: &Quarantine) -> Outcome {
    match result {
        Ok(requeue) => {
            refused.clear_refusal(key);
            Ok(*requeue)
        }
        Err(failure) => match failure.category.class() {
            Class::Retry | Class::Right => Err(failure.retry_after()),
            Class::Wait => Ok(Requeue::AwaitChange),
            Class::Quarantine => Ok(Requeue::After(throttle::RETRY_AFTER)),
        },
    }
}

#[cfg(test)]
mod tests;
