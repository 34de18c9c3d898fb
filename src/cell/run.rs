//! The running cell: watches of its own plane, the hub and projects fill the index, workers take keys from the queue.

mod conflicts;
mod figures;
mod links;
mod projects;

use super::{
    context::{Context, Settings, Turn},
    deployment::Deployments,
    instance::Instances,
    provider::Provider,
    releases::Releases,
    world::{Reading, World, role::Role},
};
use crate::{
    api::names::ProjectKey,
    engine::{
        clock::Clock,
        error::{Category, Failure},
        executor::Executor,
        key::{Key, Plane},
        plan::Next,
        quarantine::Quarantine,
        queue::{Queue, Urgency},
        work::{Controllers, Workers},
    },
    metrics::Metrics,
    plane::{client::Connection, discovery::ProjectEvent, engaged::Planes, lease::LeaseHandle},
};
use conflicts::Conflicts;
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
pub type MakeWay = Box<dyn Fn(&ProjectKey) -> Result<Way, String> + Send + Sync>;

/// How projects are reached for quota.
pub enum Projects {
    /// Those that are found.
    Found,
    /// All behind one address: the way to each is made when it is needed.
    Made(MakeWay),
}

/// What a cell is made of.
pub struct Setup {
    /// The way to its own plane.
    pub cell: Connection,
    /// The way to the hub, if there is one.
    pub hub: Option<Connection>,
    /// What the index depends on.
    pub reading: Reading,
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
const STANDSTILL: Duration = Duration::from_mins(1);

/// See the module.
pub struct Cell {
    links: Arc<Links>,
    ctx: Context,
    deployments: Deployments,
    instances: Instances,
    provider: Provider,
    releases: Releases,
    conflicts: Conflicts,
    workers: Arc<Workers>,
    hub: Option<Connection>,
    projects: Projects,
    turned: Mutex<Instant>,
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
        let world = Arc::new(Mutex::new(World::new(reading)));
        // There is one tenant in a namespace, and many namespaces.
        let queue = Arc::new(Queue::new((workers / 2).max(1)));
        let quarantine = Arc::new(Quarantine::default());
        let (commands, incoming) = mpsc::unbounded_channel();
        let (wanted, wants) = mpsc::unbounded_channel();
        let links = Arc::new(Links {
            world: world.clone(),
            queue: queue.clone(),
            planes: Planes::default(),
            lease,
            commands,
            metrics: metrics.clone(),
        });
        let reaches = links.clone();
        let ctx = Context {
            world,
            queue: queue.clone(),
            executor: Executor::new(links.clone(), identity),
            clock: clock.clone(),
            settings,
            quarantine: quarantine.clone(),
            metrics: metrics.clone(),
            away: Box::new(move |plane| reaches.is_away(plane)),
            wanted,
        };
        let cell_role = Arc::new(Self {
            links: links.clone(),
            ctx,
            deployments: Deployments::default(),
            instances: Instances::default(),
            provider: Provider::default(),
            releases: Releases::default(),
            conflicts: Conflicts::default(),
            workers: Arc::new(Workers::new(queue, quarantine, metrics, clock, workers)),
            hub,
            projects,
            turned: Mutex::new(Instant::now()),
            incoming: Mutex::new(Some(Incoming {
                commands: incoming,
                wanted: wants,
            })),
        });
        let watches = {
            let world = cell_role.ctx.world.lock();
            let roles = world.cell_roles().into_iter();
            roles.map(|role| (role, links::selection(&world, role))).collect()
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
            let world = self.ctx.world.lock();
            let knows = world.knows_place();
            let roles = Role::HUB.into_iter();
            let roles = roles.filter(|role| knows || *role != Role::HubDeployments);
            roles.map(|role| (role, links::selection(&world, role))).collect()
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
            let world = self.ctx.world.lock();
            world.knows_place().then(|| world.located())
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
                leads = leading.news() => {
                    tracing::info!(leads, "leadership changed");
                    if leads {
                        self.wake_everything();
                    }
                }
                _ = turns.tick() => {
                    *self.turned.lock() = Instant::now();
                    self.prune();
                    self.try_again(&mut known);
                }
                _ = sweep.tick() => {
                    self.ctx.queue.extend(self.workers.take_stranded(), Urgency::Backlog);
                    self.let_go(&mut known);
                }
                Some(command) = commands.recv() => match command {
                    Command::Moved => {
                        let now = {
                            let world = self.ctx.world.lock();
                            world.knows_place().then(|| world.located())
                        };
                        if now.is_some() && now != city {
                            tracing::info!(?now, "where the cell is has changed");
                            city = now;
                            self.engage_hub(known.next_engagement());
                            // What was to be written in between was not sent.
                            let keys = self.ctx.world.lock().instance_keys();
                            self.ctx.queue.extend(keys, Urgency::Backlog);
                        }
                    }
                    command => self.command(command),
                },
                Some(project) = wanted.recv() => self.wanted(&mut known, &project),
                Some(event) = projects.next() => self.found(&mut known, event),
            }
        }
        self.links.lease.stop_writing();
        self.ctx.queue.close();
        // It ends when the last turn has; a turn's own panic has been caught.
        let _ = work.await;
        // The watches hold the cell: whoever runs another one in this process is rid of this one.
        self.links.planes.lock().clear();
    }

    /// Whether the main loop turns.
    pub fn live(&self) -> Result<(), String> {
        let stood = self.turned.lock().elapsed();
        if stood > STANDSTILL {
            return Err(format!("the main loop has stood still for {} s", stood.as_secs()));
        }
        Ok(())
    }

    /// Whether the lists of the cell's own plane are complete. The hub and projects may be away: the cell goes on.
    pub fn ready(&self) -> Result<(), String> {
        let world = self.ctx.world.lock();
        let missing = world
            .cell_roles()
            .into_iter()
            .find(|role| !world.is_synced(*role));
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
                .for_each(|engaged| engaged.connection.current().rest());
            planes.keys().cloned().collect()
        };
        self.ctx.executor.retain(|plane| engaged.contains(plane));
        let (interval, now) = (self.ctx.settings.status_interval, self.ctx.now().instant);
        self.deployments.written.prune(interval, now);
        for told in [&self.instances.told, &self.provider.told] {
            told.prune(self.ctx.settings.progress_interval(), now);
        }
        let world = self.ctx.world.lock();
        self.ctx
            .quarantine
            .retain(|key| world.namespaces.get("", &key.namespace).is_some());
    }

    fn wake_everything(&self) {
        let keys = self.ctx.world.lock().all_keys();
        self.ctx.queue.extend(keys, Urgency::Backlog);
    }

    fn command(&self, command: Command) {
        match command {
            Command::Renewed(plane) => {
                self.ctx.executor.forget(&plane);
                self.revived(&plane);
            }
            Command::Revived(plane) => {
                self.ctx.executor.revived(&plane);
                self.revived(&plane);
            }
            Command::Permitted(plane) => self.revived(&plane),
            Command::Retires => {
                tracing::warn!(
                    "Instances carry the finalizer of the Pod provider, which is off (--provider=none): their Pods are \
                     looked at until they end; the cell needs the rights of manifests/cell/provider-role.yaml for that"
                );
                let watches = {
                    let world = self.ctx.world.lock();
                    let roles = Role::PROVIDER.into_iter();
                    roles.map(|role| (role, links::selection(&world, role))).collect()
                };
                self.links.watch_further(&Plane::Cell, watches);
            }
            Command::Moved => {}
        }
    }

    /// What waited for a plane is tried again at once.
    fn revived(&self, plane: &Plane) {
        self.releases.revived(plane);
        let keys = {
            let mut world = self.ctx.world.lock();
            let mut keys: Vec<Key> = match plane {
                Plane::Project(project) => {
                    world.quota_answered(project);
                    let mut keys = world.keys_of_project(project);
                    keys.extend(world.deployments_of_project(project));
                    keys
                }
                Plane::Hub | Plane::Cell => Vec::new(),
            };
            let records = world.releases.iter();
            keys.extend(records.map(|((namespace, name), _)| Role::Releases.key(namespace, name)));
            keys
        };
        self.ctx.queue.extend(keys, Urgency::Fresh);
        self.ctx.queue.wake_failed(|_| true);
    }
}

impl Controllers for Cell {
    fn controller(&self, key: &Key) -> &'static str {
        match self.role(key) {
            Some(Role::Deployments) => "deployment",
            Some(Role::Instances) => "instance",
            Some(Role::Pods) => "provider",
            Some(Role::Releases) => "releases",
            _ => "none",
        }
    }

    async fn reconcile(&self, key: &Key, _woken: Instant, wrote: &AtomicBool) -> Result<Next, Failure> {
        let turn = Turn::new(&self.ctx, wrote);
        match self.dispatch(&turn, key).await {
            // Someone else wrote first, most often another of our controllers: the next turn sees what.
            Err(failure) if failure.category == Category::Conflict => {
                Ok(Next::After(self.conflicts.another(key)))
            }
            end => {
                self.conflicts.over(key);
                end
            }
        }
    }
}

impl Cell {
    async fn dispatch(&self, turn: &Turn<'_>, key: &Key) -> Result<Next, Failure> {
        match self.role(key) {
            Some(Role::Deployments) => self.deployments.reconcile(turn, key).await,
            Some(Role::Instances) => self.instances.reconcile(turn, key, &self.releases).await,
            Some(Role::Pods) => {
                let settings = self.ctx.settings.provider.as_ref();
                self.provider.reconcile(turn, key, settings).await
            }
            Some(Role::Releases) => self.releases.reconcile(turn, key).await,
            _ => Ok(Next::OnEvent),
        }
    }

    fn role(&self, key: &Key) -> Option<Role> {
        let world = self.ctx.world.lock();
        world.role_of(&key.plane, &key.kind, &key.namespace, &key.name)
    }
}
