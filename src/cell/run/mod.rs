//! The running cell: watches of its own plane, the hub and projects fill the index, workers take keys from the queue.

mod conflict_backoff;
mod figures;
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
    quarantine::Quarantine,
    queue::{Priority, Queue},
    workers::{Role, Workers},
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

/// A way to a project, and the work that keeps it up to date.
pub type Way = (Connection, BoxFuture<'static, ()>);

/// Makes the way to a project.
pub type ConnectProject = Box<dyn Fn(&ProjectKey) -> Result<Way, String> + Send + Sync>;

/// How projects are reached for quota.
pub enum Projects {
    /// Those that are found.
    Discovered,
    /// All behind one address: the way to each is made when it is needed.
    OnDemand(ConnectProject),
}

/// What a cell is made of.
pub struct Setup {
    /// The way to its own plane.
    pub cell: Connection,
    /// The way to the hub, if there is one.
    pub hub: Option<Connection>,
    /// What the index depends on.
    pub reading: IndexConfig,
    /// Settings.
    pub settings: Settings,
    /// How projects are reached for quota.
    pub projects: Projects,
    /// The right to write.
    pub lease: LeaseHandle,
    /// Name of this replica.
    pub identity: String,
    /// How many keys are worked on at a time.
    pub workers: usize,
    /// The figures of the process.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Setup")
    }
}

/// How often the main loop turns at least.
const TURN_EVERY: Duration = Duration::from_secs(5);
/// What waits for a change of which no event may tell is looked at this often.
const SWEEP_EVERY: Duration = Duration::from_mins(5);
/// A main loop that has not turned for this time is dead.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// See the module.
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

/// What comes to the main loop.
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
    /// Puts a cell together; nothing is read or written before [`Cell::run`].
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
        // There is one tenant in a namespace, and many namespaces.
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

    /// Watches the hub, from the beginning. Its deployments are those of one city: before it is known whether there is one
    /// they are not asked for.
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

    /// Works until `shutdown`; then the writes under way are finished, and given up where a plane does not answer.
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
                    self.let_go(&mut known);
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
                            // What was to be written in between was not sent.
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
        // It ends when the last turn has; a turn's own panic has been caught.
        let _ = work.await;
        // The watches hold the cell: whoever runs another one in this process is rid of this one.
        self.links.planes.lock().clear();
    }

    /// Whether the main loop turns.
    pub fn live(&self) -> Result<(), String> {
        let stood = self.last_tick.lock().elapsed();
        if stood > STALL_TIMEOUT {
            return Err(format!("the main loop has stood still for {} s", stood.as_secs()));
        }
        Ok(())
    }

    /// Whether the lists of the cell's own plane are complete. The hub and projects may be away: the cell goes on.
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
                self.ctx.executor.recovered(&plane);
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

    /// What waited for a plane is tried again at once.
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
            // Someone else wrote first, most often another of our controllers: the next turn sees what.
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
