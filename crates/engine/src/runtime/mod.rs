//! The runtime of every role: engages planes, fills the index from their watches, and runs the controllers on the keys
//! of the queue.

mod causes;
pub mod context;
mod credential_expiry;
pub mod driver;
pub mod failures;
pub mod index;
pub mod inspect;
mod optional_kinds;
mod plane_states;
pub mod planes;
pub mod queue;
pub mod role;
mod status;
mod suspension;
pub mod workers;

use crate::{
    backoff::Backoff,
    clock::Clock,
    error::{Category, Failure},
    executor::{Executor, PlaneAccess},
    key::{Key, Plane},
    metrics::{ClosedLabels, Metrics, PlaneKind},
    plan::Requeue,
    plane::{discovery::ProjectEvent, lease::LeaseHandle},
    random::HashSet,
    reconcile::{memory::Memories, quarantine::Quarantine},
};
use context::{Context, Shared};
use failures::Cause;
use fedgate_api::names::ProjectKey;
use futures::{Stream, StreamExt};
use index::{Index, Keys, RoleState, Triggers};
use parking_lot::Mutex;
use planes::{Command, Commands, EngagedPlanes};
use queue::{Priority, Queue};
use role::{CommandOf, IndexOf, Role};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::time::Instant;
use workers::{Dispatch, Workers};

/// Longest time between two ticks of the main loop.
const TICK_INTERVAL: Duration = Duration::from_secs(5);

/// A main loop without a tick for this time is dead.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Requeue delay of a key after a conflict: the watch delivers the winning version soon, unless the watch is late.
const CONFLICT_BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(5));

/// Divisor of the workers: a lane may use at most one half of them.
const LANE_SHARE: usize = 2;

/// Parts of a runtime that do not depend on its role.
#[derive(Debug)]
pub struct Setup {
    /// The Lease that permits writes.
    pub lease: LeaseHandle,
    /// Name of this replica.
    pub identity: String,
    /// Number of keys that are reconciled concurrently.
    pub workers: usize,
    /// Interval at which keys are enqueued whose change no event may report.
    pub sweep_interval: Duration,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
}

/// A running role; see the module.
pub struct Runtime<R: Role> {
    /// The controllers.
    pub role: R,
    /// State that they share.
    pub shared: Shared<R::State>,
    sweep_interval: Duration,
    /// Number of consecutive conflicts of each key whose last reconcile ended in a conflict.
    conflicts: Memories<u32>,
    last_tick: Mutex<Instant>,
    commands: Mutex<Option<Commands<IndexOf<R>>>>,
}

/// The executor's access to planes, made of the engaged ones.
pub type Access<'a, I> = &'a dyn Fn(&Arc<EngagedPlanes<I>>) -> Arc<dyn PlaneAccess>;

/// The parts of [`Shared`], and the receiver of the commands to the main loop.
fn share<S: RoleState>(
    index: Arc<Mutex<S::Index>>,
    state: S,
    lease_plane: PlaneKind,
    triggers: Triggers<S::Index>,
    setup: Setup,
    access: Access<'_, S::Index>,
) -> (Shared<S>, Commands<S::Index>) {
    let queue = Arc::new(Queue::new((setup.workers / LANE_SHARE).max(1)));
    let quarantine = Arc::new(Quarantine::default());
    let (planes, commands) = EngagedPlanes::new(
        index.clone(),
        queue.clone(),
        setup.lease,
        lease_plane,
        triggers,
        setup.metrics.clone(),
    );
    let workers = Arc::new(Workers::new(
        queue.clone(),
        quarantine.clone(),
        setup.metrics.clone(),
        setup.clock.clone(),
        setup.workers,
    ));
    let shared = Shared {
        index,
        queue,
        executor: Executor::new(access(&planes), setup.identity, setup.clock.clone()).releasing(S::releases),
        planes,
        workers,
        quarantine,
        refused: Mutex::default(),
        metrics: setup.metrics,
        clock: setup.clock,
        state,
    };
    (shared, commands)
}

/// Shared state whose executor uses this access to planes; no plane is engaged.
#[cfg(any(test, feature = "testing"))]
pub fn shared_for_tests<S: RoleState>(
    index: Arc<Mutex<S::Index>>,
    state: S,
    setup: Setup,
    access: Arc<dyn PlaneAccess>,
) -> Shared<S> {
    let access = move |_: &Arc<EngagedPlanes<S::Index>>| access.clone();
    share(index, state, PlaneKind::Hub, |_, _, _| {}, setup, &access).0
}

impl<R: Role> Runtime<R> {
    /// A runtime without planes; no key is reconciled before [`Runtime::run`].
    pub fn new(role: R, state: R::State, index: IndexOf<R>, setup: Setup) -> Arc<Self> {
        Self::over(role, state, index, setup, &|planes| planes.clone())
    }

    /// A runtime whose executor has another access to planes: its caller feeds the events, and reconciles the keys of the
    /// queue itself.
    pub fn over(
        role: R,
        state: R::State,
        index: IndexOf<R>,
        setup: Setup,
        access: Access<'_, IndexOf<R>>,
    ) -> Arc<Self> {
        let sweep_interval = setup.sweep_interval;
        let watches = index.tables().into_iter();
        setup.metrics.declare(&ClosedLabels {
            planes: R::PLANES.iter().map(|plane| plane.as_str()).collect(),
            controllers: R::CONTROLLERS.to_vec(),
            categories: Category::ALL.iter().map(|category| category.as_str()).collect(),
            workers: setup.workers,
            stages: R::STAGES.to_vec(),
            rejections: R::REJECTIONS.to_vec(),
            watches: watches
                .map(|(plane, table)| (plane.as_str(), index.plural(table)))
                .collect(),
        });
        let (shared, commands) = share(
            Arc::new(Mutex::new(index)),
            state,
            R::LEASE_PLANE,
            R::triggers,
            setup,
            access,
        );
        Arc::new(Self {
            role,
            shared,
            sweep_interval,
            conflicts: Memories::default(),
            last_tick: Mutex::new(Instant::now()),
            commands: Mutex::new(Some(commands)),
        })
    }

    /// Runs until `shutdown`; then waits for the writes in flight, and abandons those to a plane that does not answer.
    pub async fn run(
        self: &Arc<Self>,
        projects: impl Stream<Item = ProjectEvent>,
        shutdown: impl Future<Output = ()>,
    ) {
        let Some(mut commands) = self.commands.lock().take() else {
            return;
        };
        let workers = tokio::spawn(self.shared.workers.clone().run(self.clone()));
        let mut leading = self.shared.planes.lease.changes();
        let mut sweep = tokio::time::interval(self.sweep_interval);
        sweep.tick().await;
        let mut ticks = tokio::time::interval(TICK_INTERVAL);
        let mut projects = std::pin::pin!(projects.fuse());
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                leads = leading.changed() => {
                    tracing::info!(leads, "leadership changed");
                    if leads {
                        self.role.on_leading(&self.shared);
                        self.requeue_all();
                    } else {
                        self.shared.workers.failures().stand_by();
                    }
                }
                _ = ticks.tick() => {
                    *self.last_tick.lock() = Instant::now();
                    self.prune();
                    self.probe_suspended();
                    self.observe_causes();
                    self.observe_credentials();
                }
                _ = sweep.tick() => self.sweep(),
                Some(command) = commands.recv() => self.command(command),
                Some(event) = projects.next() => self.project(event),
            }
        }
        self.shared.planes.lease.revoke();
        self.shared.queue.close();
        // The task ends after the last reconcile; a panic of a reconcile has been caught.
        let _ = workers.await;
        // The watches hold the planes: without this, they would run beside those of another runtime in this process.
        self.shared.planes.lock().clear();
    }

    fn command(&self, command: Command<CommandOf<R>>) {
        let Self { role, shared, .. } = self;
        match command {
            Command::CredentialChanged(plane) => {
                shared.executor.forget(&plane);
                self.recovered(&plane);
            }
            Command::Recovered(plane) => self.recovered(&plane),
            Command::Resumed(plane) => self.resumed(&plane),
            Command::Rewound(plane, engagement, next) => {
                role.on_rewound(shared);
                shared.planes.watch_again(&plane, engagement, next);
            }
            Command::Role(command) => role.on_command(shared, command),
        }
    }

    fn recovered(&self, plane: &Plane) {
        self.observe_causes();
        self.role.on_recovered(&self.shared, plane);
    }

    fn project(&self, event: ProjectEvent) {
        let refused = &self.shared.refused;
        match &event {
            ProjectEvent::Engaged { key, .. } | ProjectEvent::Removed { key } => {
                refused.lock().remove(key.as_str());
            }
            ProjectEvent::Rejected { name, error } => {
                refused.lock().insert(name.clone(), error.clone());
                tracing::warn!(project = name, %error, "project rejected; the others continue");
            }
            ProjectEvent::Suspension { key, suspended } => self.suspension(key, *suspended),
            ProjectEvent::RejectionCleared { name } => {
                refused.lock().remove(name);
                tracing::info!(
                    project = name,
                    "the project's kubeconfig is accepted, or was removed"
                );
            }
            ProjectEvent::Listed { .. } | ProjectEvent::Gone { .. } | ProjectEvent::Answered(_) => {}
        }
        self.role.on_project(&self.shared, event);
    }

    /// Drops state of planes that are not engaged, and cached clients, which are quick to create again.
    fn prune(&self) {
        let engaged: HashSet<Plane> = {
            let planes = self.shared.planes.lock();
            planes
                .values()
                .for_each(|engaged| engaged.connection.current().release_client());
            planes.keys().cloned().collect()
        };
        self.shared.executor.retain(|plane| engaged.contains(plane));
        self.role.prune(&self.shared);
    }

    /// Enqueues keys whose change no event may report: every other decision is enqueued by the event that may change
    /// it, or by its own requeue time, so that an idle object costs no request. Parked keys are among them: no event
    /// reports that a project is resumed, and a replica of an API server may reject a write for a while that the others
    /// already accept.
    fn sweep(&self) {
        let suspects = self.role.sweep(&self.shared);
        let keys = suspects.into_iter().chain(self.shared.workers.take_parked());
        self.shared.queue.extend(keys, Priority::Backlog);
    }

    /// Enqueues all keys, as when this replica begins to lead.
    pub fn requeue_all(&self) {
        let Keys { keys, fresh } = self.shared.index.lock().all_keys();
        self.shared.queue.extend(fresh, Priority::Fresh);
        self.shared.queue.extend(keys, Priority::Backlog);
    }
}

impl<R: Role> Dispatch for Runtime<R> {
    fn controller(&self, key: &Key) -> &'static str {
        self.role.controller(&self.shared, key)
    }

    fn cause(&self, failure: &Failure) -> Option<Cause> {
        self.cause_of(failure)
    }

    fn project(&self, key: &Key) -> Option<ProjectKey> {
        self.role.project(&self.shared, key)
    }

    async fn reconcile(
        &self,
        key: &Key,
        enqueued_at: Instant,
        wrote: &AtomicBool,
    ) -> Result<Requeue, Failure> {
        let cx = Context::new(&self.shared, enqueued_at, wrote);
        let result = self.role.reconcile(&cx, key).await;
        match result {
            // Another client wrote first, most often another of fedgate's controllers: the next reconcile reads that
            // version.
            Err(failure) if failure.category == Category::Conflict && R::expects_conflict(&failure) => {
                let conflicts = self.conflicts.take(key);
                self.conflicts.put(key, conflicts.saturating_add(1));
                Ok(Requeue::After(CONFLICT_BACKOFF.delay(conflicts, ())))
            }
            result => {
                self.conflicts.forget(key);
                result
            }
        }
    }
}
