//! The cell runtime: watches of the cell's own plane, the hub and projects fill the index; workers dequeue keys.

mod conflict_backoff;
mod gauges;
mod links;
mod projects;

use super::{
    context::{Context, Settings, Shared},
    deployment::Deployments,
    index::{CellIndex, IndexConfig, tables::TableId},
    instance::Instances,
    provider::Provider,
    releases::Releases,
};
use conflict_backoff::ConflictBackoff;
use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    clock::Clock,
    error::{Category, Failure},
    executor::Executor,
    key::{Key, Plane},
    metrics::Metrics,
    plan::Requeue,
    plane::{client::Connection, discovery::ProjectEvent, lease::LeaseHandle, registry::PlaneRegistry},
    reconcile::quarantine::Quarantine,
    runtime::{
        queue::{Priority, Queue},
        workers::{Role, Workers},
    },
};
use futures::{Stream, StreamExt, future::BoxFuture};
use links::{Command, Links};
use parking_lot::Mutex;
use projects::Known;
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// Connection to a project, and the task that keeps it up to date.
pub type Way = (Connection, BoxFuture<'static, ()>);

/// Makes the connection to a project.
pub type ConnectProject = Box<dyn Fn(&ProjectKey) -> Result<Way, String> + Send + Sync>;

/// Source of the connections to projects for quota.
pub enum Projects {
    /// Discovered projects.
    Discovered,
    /// All projects behind one address: the connection to each is made on demand.
    OnDemand(ConnectProject),
}

/// Parts and settings of a cell.
pub struct Setup {
    /// Connection to the cell's own API server.
    pub cell: Connection,
    /// Connection to the hub, if the cell has one.
    pub hub: Option<Connection>,
    /// Configuration of the index.
    pub reading: IndexConfig,
    /// Settings.
    pub settings: Settings,
    /// Source of the connections to projects for quota.
    pub projects: Projects,
    /// Lease that permits writes.
    pub lease: LeaseHandle,
    /// Name of this replica.
    pub identity: String,
    /// Number of keys that are reconciled concurrently.
    pub workers: usize,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Setup")
    }
}

/// Longest interval between ticks of the main loop.
const TURN_EVERY: Duration = Duration::from_secs(5);
/// Interval at which parked keys are requeued: no event may report the change that they wait for.
const SWEEP_EVERY: Duration = Duration::from_mins(5);
/// A main loop without a tick for this long is considered dead.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// The cell runtime.
pub struct Cell {
    links: Arc<Links>,
    ctx: Shared,
    deployments: Deployments,
    instances: Instances,
    provider: Provider,
    releases: Releases,
    conflicts: ConflictBackoff,
    workers: Arc<Workers>,
    hub: Option<Connection>,
    projects: Projects,
    last_tick: Mutex<Instant>,
    incoming: Mutex<Option<Incoming>>,
}

/// Receivers of the main loop.
struct Incoming {
    commands: mpsc::UnboundedReceiver<Command>,
    wanted: mpsc::UnboundedReceiver<ProjectKey>,
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cell")
    }
}

impl Cell {
    /// Creates a cell; no plane is read or written before [`Cell::run`].
    pub fn new(setup: Setup) -> Arc<Self> {
        let Setup {
            cell,
            hub,
            reading,
            settings,
            projects,
            lease,
            identity,
            workers,
            metrics,
            clock,
        } = setup;
        let index = Arc::new(Mutex::new(CellIndex::new(reading)));
        // A namespace has a single tenant, and there are many namespaces.
        let queue = Arc::new(Queue::new((workers / 2).max(1)));
        let quarantine = Arc::new(Quarantine::default());
        let (commands, incoming) = mpsc::unbounded_channel();
        let (wanted, wants) = mpsc::unbounded_channel();
        let links = Arc::new(Links {
            index: index.clone(),
            queue: queue.clone(),
            planes: PlaneRegistry::default(),
            lease,
            commands,
            metrics: metrics.clone(),
        });
        let reaches = links.clone();
        let ctx = Shared {
            index,
            queue: queue.clone(),
            executor: Executor::new(links.clone(), identity),
            clock: clock.clone(),
            settings,
            quarantine: quarantine.clone(),
            metrics: metrics.clone(),
            away: Box::new(move |plane| reaches.is_down(plane)),
            wanted,
        };
        let cell_role = Arc::new(Self {
            links: links.clone(),
            ctx,
            deployments: Deployments::default(),
            instances: Instances::default(),
            provider: Provider::default(),
            releases: Releases::default(),
            conflicts: ConflictBackoff::default(),
            workers: Arc::new(Workers::new(queue, quarantine, metrics, clock, workers)),
            hub,
            projects,
            last_tick: Mutex::new(Instant::now()),
            incoming: Mutex::new(Some(Incoming {
                commands: incoming,
                wanted: wants,
            })),
        });
        let watches = {
            let index = cell_role.ctx.index.lock();
            let roles = index.cell_roles().into_iter();
            roles.map(|role| (role, links::selection(&index, role))).collect()
        };
        links.engage(&Plane::Cell, 0, cell, watches);
        cell_role.engage_hub(1);
        cell_role
    }

    /// Watches the hub from a fresh list. The cell watches only the deployments of its city: until the index knows if
    /// there is a city, it does not watch them.
    fn engage_hub(&self, engagement: u64) {
        let Some(hub) = &self.hub else { return };
        let watches = {
            let index = self.ctx.index.lock();
            let knows = index.location_known();
            let roles = TableId::HUB.into_iter();
            let roles = roles.filter(|role| knows || *role != TableId::HubDeployments);
            roles.map(|role| (role, links::selection(&index, role))).collect()
        };
        self.links.planes.lock().remove(&Plane::Hub);
        self.links.engage(&Plane::Hub, engagement, hub.clone(), watches);
    }

    /// Runs until `shutdown`; then finishes the writes in flight, and abandons those to a plane that does not answer.
    pub async fn run(
        self: &Arc<Self>,
        projects: impl Stream<Item = ProjectEvent>,
        shutdown: impl Future<Output = ()>,
    ) {
        let work = tokio::spawn(self.workers.clone().run(self.clone()));
        let Some(Incoming {
            mut commands,
            mut wanted,
        }) = self.incoming.lock().take()
        else {
            return;
        };
        let mut known = Known::default();
        let mut city = {
            let index = self.ctx.index.lock();
            index.location_known().then(|| index.located())
        };
        let mut leading = self.links.lease.changes();
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        sweep.tick().await;
        let mut turns = tokio::time::interval(TURN_EVERY);
        let mut projects = std::pin::pin!(projects.fuse());
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                leads = leading.changed() => {
                    tracing::info!(leads, "leadership changed");
                    if leads {
                        self.requeue_all();
                    }
                }
                _ = turns.tick() => {
                    *self.last_tick.lock() = Instant::now();
                    self.prune();
                    self.try_again(&mut known);
                }
                _ = sweep.tick() => {
                    self.ctx.queue.extend(self.workers.take_parked(), Priority::Backlog);
                    self.release_unneeded(&mut known);
                }
                Some(command) = commands.recv() => match command {
                    Command::Moved => {
                        let now = {
                            let index = self.ctx.index.lock();
                            index.location_known().then(|| index.located())
                        };
                        if now.is_some() && now != city {
                            tracing::info!(?now, "the cell's location has changed");
                            city = now;
                            self.engage_hub(known.next_engagement());
                            // Writes that were due in between were not sent: reconcile the Instances again.
                            let keys = self.ctx.index.lock().instance_keys();
                            self.ctx.queue.extend(keys, Priority::Backlog);
                        }
                    }
                    command => self.command(command),
                },
                Some(project) = wanted.recv() => self.wanted(&mut known, &project),
                Some(event) = projects.next() => self.found(&mut known, event),
            }
        }
        self.links.lease.revoke();
        self.ctx.queue.close();
        // The task ends after the last reconcile; a panic in a reconcile is already caught there.
        let _ = work.await;
        // The watches hold the cell: clear them so that this cell is dropped before another runs in this process.
        self.links.planes.lock().clear();
    }

    /// True if the main loop ticks; otherwise the reason.
    pub fn live(&self) -> Result<(), String> {
        let stood = self.last_tick.lock().elapsed();
        if stood > STALL_TIMEOUT {
            return Err(format!("the main loop has stood still for {} s", stood.as_secs()));
        }
        Ok(())
    }

    /// Checks that the lists of the cell's own plane are complete. The hub and projects may be down: the cell
    /// continues.
    pub fn ready(&self) -> Result<(), String> {
        let index = self.ctx.index.lock();
        let missing = index
            .cell_roles()
            .into_iter()
            .find(|role| !index.is_synced(*role));
        match missing {
            Some(role) => Err(format!("the list of {} at the cell is not complete", role.kind())),
            None => Ok(()),
        }
    }

    fn prune(&self) {
        let engaged: BTreeSet<Plane> = {
            let planes = self.links.planes.lock();
            planes
                .values()
                .for_each(|engaged| engaged.connection.current().release_client());
            planes.keys().cloned().collect()
        };
        self.ctx.executor.retain(|plane| engaged.contains(plane));
        let now = self.ctx.now().instant;
        for throttle in [
            &self.deployments.written,
            &self.instances.progress,
            &self.provider.progress,
        ] {
            throttle.prune(now);
        }
        let index = self.ctx.index.lock();
        self.ctx
            .quarantine
            .retain(|key| index.namespaces.get("", &key.namespace).is_some());
    }

    fn requeue_all(&self) {
        let keys = self.ctx.index.lock().all_keys();
        self.ctx.queue.extend(keys, Priority::Backlog);
    }

    fn command(&self, command: Command) {
        match command {
            Command::CredentialChanged(plane) => {
                self.ctx.executor.forget(&plane);
                self.recovered(&plane);
            }
            Command::PlaneRecovered(plane) => {
                self.recovered(&plane);
            }
            Command::PermissionGranted(plane) => self.recovered(&plane),
            Command::Retires => {
                tracing::warn!(
                    "Instances carry the finalizer of the Pod provider, which is off (--provider=none): their Pods are \
                     looked at until they end; the cell needs the rights of manifests/cell/provider-role.yaml for that"
                );
                let watches = {
                    let index = self.ctx.index.lock();
                    let roles = TableId::PROVIDER.into_iter();
                    roles.map(|role| (role, links::selection(&index, role))).collect()
                };
                self.links.watch_further(&Plane::Cell, watches);
            }
            Command::Moved => {}
        }
    }

    /// Retries at once all keys that waited for a plane.
    fn recovered(&self, plane: &Plane) {
        self.releases.recovered(plane);
        let keys = {
            let mut index = self.ctx.index.lock();
            let mut keys: Vec<Key> = match plane {
                Plane::Project(project) => {
                    index.quota_answered(project);
                    let mut keys = index.keys_of_project(project);
                    keys.extend(index.deployments_of_project(project));
                    keys
                }
                Plane::Hub | Plane::Cell => Vec::new(),
            };
            let records = index.releases.iter();
            keys.extend(records.map(|((namespace, name), _)| TableId::Releases.key(namespace, name)));
            keys
        };
        self.ctx.queue.extend(keys, Priority::Fresh);
        self.ctx.queue.retry_failed(|_| true);
    }
}

impl Role for Cell {
    fn controller(&self, key: &Key) -> &'static str {
        match self.role(key) {
            Some(TableId::Deployments) => "deployment",
            Some(TableId::Instances) => "instance",
            Some(TableId::Pods) => "provider",
            Some(TableId::Releases) => "releases",
            _ => "none",
        }
    }

    async fn reconcile(&self, key: &Key, _woken: Instant, wrote: &AtomicBool) -> Result<Requeue, Failure> {
        let ctx = Context::new(&self.ctx, wrote);
        match self.dispatch(&ctx, key).await {
            // Another client wrote first, most often another of fedgate's controllers: the next reconcile reads that
            // version.
            Err(failure) if failure.category == Category::Conflict => {
                Ok(Requeue::After(self.conflicts.another(key)))
            }
            end => {
                self.conflicts.over(key);
                end
            }
        }
    }
}

impl Cell {
    async fn dispatch(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        match self.role(key) {
            Some(TableId::Deployments) => self.deployments.reconcile(ctx, key).await,
            Some(TableId::Instances) => self.instances.reconcile(ctx, key, &self.releases).await,
            Some(TableId::Pods) => {
                let settings = self.ctx.settings.provider.as_ref();
                self.provider.reconcile(ctx, key, settings).await
            }
            Some(TableId::Releases) => self.releases.reconcile(ctx, key).await,
            _ => Ok(Requeue::AwaitChange),
        }
    }

    fn role(&self, key: &Key) -> Option<TableId> {
        let index = self.ctx.index.lock();
        index.role_of(&key.plane, &key.kind, &key.namespace, &key.name)
    }
}
