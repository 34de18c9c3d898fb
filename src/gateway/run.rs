//! The running gateway: planes come and go, watches fill the index, workers take keys from the queue.

mod figures;
mod links;

use super::{
    companions,
    context::{Context, Settings, Turn},
    federator::Federator,
    garbage::Garbage,
    interpreters::Interpreters,
    namespaces, policies,
    projector::Projector,
    rate_limit::RateLimiter,
    workload::Workloads,
    world::{Role, Tie, World, networking::WorkloadChecks},
};
use crate::engine::chance::HashSet;
use crate::{
    api::names::{HubNamespace, ProjectKey},
    engine::{
        clock::Clock,
        error::Failure,
        executor::{Executor, Surroundings},
        key::{Key, Plane},
        plan::Next,
        quarantine::Quarantine,
        queue::{Queue, Urgency},
        work::{Controllers, Workers},
    },
    kinds::FederatedKind,
    metrics::Metrics,
    plane::{client::Connection, discovery::ProjectEvent, engaged::Planes, lease::LeaseHandle},
};
use futures::{Stream, StreamExt};
use links::{Command, Links};
use parking_lot::Mutex;
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// What a gateway is made of.
#[derive(Debug)]
pub struct Setup {
    /// The way to the hub.
    pub hub: Connection,
    /// The federated kinds.
    pub kinds: Vec<FederatedKind>,
    /// Settings.
    pub settings: Settings,
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

/// Share of the workers that one lane may take.
const LANE_SHARE: usize = 2;

/// A project whose lists are not complete after this time no longer holds up readiness.
const READY_PATIENCE: Duration = Duration::from_secs(10);

/// Most refused claims that `/debug/planes` shows.
const CLAIMS_SHOWN: usize = 1_000;

/// How often the main loop turns at least.
const TURN_EVERY: Duration = Duration::from_secs(5);

/// A main loop that has not turned for this time is dead.
const STANDSTILL: Duration = Duration::from_mins(1);

/// See the module.
pub struct Gateway {
    links: Arc<Links>,
    ctx: Context,
    federator: Federator,
    projector: Projector,
    workloads: Workloads,
    interpreters: Interpreters,
    garbage: Garbage,
    workers: Arc<Workers>,
    turned: Mutex<Instant>,
    commands: Mutex<Option<mpsc::UnboundedReceiver<Command>>>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gateway")
    }
}

impl Gateway {
    /// Puts a gateway together; nothing is read or written before [`Gateway::run`].
    pub fn new(setup: Setup) -> Arc<Self> {
        let Setup {
            hub,
            kinds,
            settings,
            lease,
            identity,
            workers,
            metrics,
            clock,
        } = setup;
        let checks = WorkloadChecks {
            locations: settings.location_checks,
            networks: settings.networking,
        };
        let mut world = World::new(Arc::new(kinds), checks);
        world.largest_spec = settings.max_spec_size;
        let world = Arc::new(Mutex::new(world));
        let queue = Arc::new(Queue::new((workers / LANE_SHARE).max(1)));
        let (commands, receiver) = mpsc::unbounded_channel();
        let links = Arc::new(Links {
            world: world.clone(),
            queue: queue.clone(),
            planes: Planes::default(),
            lease,
            commands,
            metrics: metrics.clone(),
        });
        let executor = Executor::new(links.clone(), identity);
        let quarantine = Arc::new(Quarantine::default());
        let workers = Arc::new(Workers::new(
            queue.clone(),
            quarantine.clone(),
            metrics.clone(),
            clock.clone(),
            workers,
        ));
        let gateway = Arc::new(Self {
            links: links.clone(),
            ctx: Context {
                world,
                queue,
                executor,
                clock,
                rate_limiter: Mutex::new(RateLimiter::new(settings.hub_limits)),
                settings,
                quarantine,
                metrics,
            },
            federator: Federator::default(),
            projector: Projector::default(),
            workloads: Workloads::default(),
            interpreters: Interpreters::default(),
            garbage: Garbage::default(),
            workers,
            turned: Mutex::new(Instant::now()),
            commands: Mutex::new(Some(receiver)),
        });
        let roles = gateway.ctx.world.lock().hub_roles();
        links.engage(&Plane::Hub, 0, hub, &roles);
        gateway
    }

    /// Works until `shutdown`; then the writes under way are finished, and given up where a plane does not answer.
    pub async fn run(
        self: &Arc<Self>,
        projects: impl Stream<Item = ProjectEvent>,
        shutdown: impl Future<Output = ()>,
    ) {
        let work = tokio::spawn(self.workers.clone().run(self.clone()));
        let Some(mut commands) = self.commands.lock().take() else {
            return;
        };
        let mut leading = self.links.lease.changes();
        let mut sweep = tokio::time::interval(self.ctx.settings.sweep_interval);
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
                        let woken = self.ctx.world.lock().lead();
                        self.links.refused(&woken.refused);
                        self.ctx.queue.extend(woken.keys, Urgency::Fresh);
                        self.garbage.begin_anew();
                        self.wake_everything();
                    }
                }
                _ = turns.tick() => {
                    *self.turned.lock() = Instant::now();
                    self.prune();
                }
                _ = sweep.tick() => self.sweep(),
                Some(command) = commands.recv() => self.command(command),
                Some(change) = projects.next() => self.project(change),
            }
        }
        self.links.lease.stop_writing();
        self.ctx.queue.close();
        // It ends when the last turn has; a turn's own panic has been caught.
        let _ = work.await;
        // The watches hold the gateway: whoever runs another one in this process is rid of this one.
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

    /// Whether the hub's first lists are complete and no project that answers is still being listed.
    pub fn ready(&self) -> Result<(), String> {
        let world = self.ctx.world.lock();
        if !world.hub_ready() {
            return Err("the hub's first lists are not complete".to_owned());
        }
        let planes = self.links.planes.lock();
        for (plane, engaged) in planes.iter() {
            let Plane::Project(key) = plane else { continue };
            // A project without Locations or Networks answers all the same.
            let failing = engaged.watches.iter().any(|(role, health)| {
                health.restarts() > 0 && !matches!(role, Role::Locations | Role::Networks)
            });
            if !world.project_ready(key) && !failing && engaged.since.elapsed() < READY_PATIENCE {
                return Err(format!("the first lists of project {key} are not complete"));
            }
        }
        Ok(())
    }

    /// The state of every plane and watch, for `/debug/planes`.
    pub fn describe(&self) -> serde_json::Value {
        let world = self.ctx.world.lock();
        let depth = self.ctx.queue.depth();
        let missing = self.ctx.executor.missing_rights();
        let planes: Vec<serde_json::Value> = self
            .links
            .planes
            .lock()
            .iter()
            .map(|(plane, engaged)| {
                let ready = match plane {
                    Plane::Hub => world.hub_ready(),
                    Plane::Project(key) => world.project_ready(key),
                    Plane::Cell => false,
                };
                let watches: Vec<_> = engaged
                    .watches
                    .iter()
                    .map(|(role, health)| {
                        serde_json::json!({
                            "kind": world.kind_of(*role).as_str(),
                            "synced": health.synced(), "forbidden": health.forbidden(),
                            "restarts": health.restarts(), "error": health.error(),
                        })
                    })
                    .collect();
                let missing: Vec<String> = missing
                    .iter()
                    .filter(|right| right.plane == *plane)
                    .map(ToString::to_string)
                    .collect();
                serde_json::json!({"plane": plane.to_string(), "ready": ready, "missingRights": missing,
                    "seconds": engaged.since.elapsed().as_secs(), "watches": watches})
            })
            .collect();
        serde_json::json!({
            "planes": planes,
            "queue": {"ready": depth.ready, "running": depth.running, "delayed": depth.delayed, "inBackoff": depth.in_backoff},
            "quarantined": self.ctx.quarantine.counts().into_iter()
                .map(|((kind, verdict), count)| serde_json::json!({"kind": kind.as_str(), "verdict": verdict, "count": count}))
                .collect::<Vec<_>>(),
            "failures": self.workers.failures().describe(),
            "rejectedClaims": world.refused_claims().take(CLAIMS_SHOWN)
                .map(|refusal| serde_json::json!({
                    "hubNamespace": &*refusal.hub, "holder": refusal.holder.to_string(),
                    "project": refusal.claimant.project.as_str(), "namespace": &*refusal.claimant.namespace,
                }))
                .collect::<Vec<_>>(),
            "garbageBrake": self.garbage.brake() || world.withholds(),
            "garbageBrakes": self.garbage.brakes(),
            "interpreterDrift": self.interpreters.drift(),
            "leading": self.links.lease.may_write(),
        })
    }

    /// Forgets what is kept of projects that have left and came in too late to be forgotten with them, and what is quickly
    /// made again.
    fn prune(&self) {
        let engaged: HashSet<Plane> = {
            let planes = self.links.planes.lock();
            planes
                .values()
                .for_each(|engaged| engaged.connection.current().rest());
            planes.keys().cloned().collect()
        };
        self.ctx.executor.retain(|plane| engaged.contains(plane));
        let mut world = self.ctx.world.lock();
        world.forget_untied();
        world.forget_withheld(self.ctx.settings.projection_retention);
        self.federator.prune(&self.ctx, &world);
        self.projector.prune(&self.ctx, &world);
        self.workloads.prune(&world);
        self.garbage.prune(&world, self.ctx.now());
        let is_engaged = |project: &ProjectKey| world.projects.contains_key(project);
        self.ctx.rate_limiter.lock().prune(is_engaged, self.ctx.now());
        self.ctx.quarantine.retain(|key| match &key.plane {
            Plane::Project(project) => world.projects.contains_key(project),
            Plane::Hub => {
                let cluster_wide = key.namespace.is_empty();
                let hub = if cluster_wide { &key.name } else { &key.namespace };
                HubNamespace::parse(hub).is_none() || world.ties.contains_key(hub)
            }
            Plane::Cell => false,
        });
    }

    /// Looks again at what is suspected, and at nothing else: everything that is decided here is woken by the event that
    /// may change the decision, or by a time of its own, so that what is at rest costs nothing.
    ///
    /// Suspected are the orphans, who share their project's brake, and what a server told to wait for a change that may be over
    /// without an event: nobody tells of a project that is resumed, and a replica of an API server may refuse for a
    /// while what the others already take.
    fn sweep(&self) {
        let stranded = self.workers.take_stranded();
        let suspects = self.garbage.suspects().into_iter().chain(stranded);
        self.ctx.queue.extend(suspects, Urgency::Backlog);
    }

    /// Looks at all there is.
    fn wake_everything(&self) {
        let (uncarried, keys) = {
            let world = self.ctx.world.lock();
            (world.uncarried_keys(&Plane::Hub), world.ready_keys())
        };
        self.ctx.queue.extend(uncarried, Urgency::Fresh);
        self.ctx.queue.extend(keys, Urgency::Backlog);
    }

    /// What failed and may have failed for the sake of this plane is tried again at once.
    fn wake_failed(&self, plane: &Plane) {
        let hubs: HashSet<Arc<str>> = {
            let world = self.ctx.world.lock();
            let ours = |tie: &Tie| matches!(plane, Plane::Project(key) if *key == tie.project);
            let ties = world.ties.iter().filter(|(_, tie)| ours(tie));
            ties.map(|(hub, _)| hub.clone()).collect()
        };
        self.ctx
            .queue
            .wake_failed(|key| *plane == Plane::Hub || key.plane == *plane || hubs.contains(&key.namespace));
    }

    fn project(&self, change: ProjectEvent) {
        match change {
            ProjectEvent::Engaged { key, connection } => {
                tracing::info!(project = %key, "project engaged");
                let plane = Plane::Project(key.clone());
                let (engagement, roles) = {
                    let mut world = self.ctx.world.lock();
                    (world.engage(key), world.project_roles())
                };
                self.links.engage(&plane, engagement, connection, &roles);
            }
            ProjectEvent::Left { key } => {
                tracing::info!(project = %key, "project left; what it has on the hub stays");
                let plane = Plane::Project(key.clone());
                self.links.planes.lock().remove(&plane);
                self.ctx.executor.forget(&plane);
                self.ctx.quarantine.forget(&plane);
                self.workers.failures().forget(&plane);
                let woken = self.ctx.world.lock().disengage(&key);
                self.links.refused(&woken.refused);
                self.ctx.queue.extend(woken.keys, Urgency::Fresh);
            }
            ProjectEvent::Refused { name, error } => {
                tracing::warn!(project = name, %error, "project refused; the others go on");
            }
            ProjectEvent::Forgotten { name } => {
                tracing::info!(project = name, "what was refused is gone");
            }
        }
    }

    fn command(&self, command: Command) {
        match command {
            Command::WatchReferences(key, engagement) => {
                let plane = Plane::Project(key);
                // One that has come anew meanwhile finds out by itself.
                if self.links.engagement(&plane) == engagement {
                    self.links.watch_more(&plane, &[Role::ConfigMaps, Role::Secrets]);
                }
            }
            Command::Renewed(plane) => {
                self.ctx.executor.forget(&plane);
                self.wake_failed(&plane);
            }
            Command::Revived(plane) => {
                self.ctx.executor.revived(&plane);
                self.wake_failed(&plane);
            }
            Command::Permitted(plane) => self.wake_failed(&plane),
            Command::Rewound(plane, engagement, anew) => {
                self.garbage.begin_anew();
                self.links.begin_anew(&plane, engagement, anew);
            }
        }
    }
}

impl Controllers for Gateway {
    fn controller(&self, key: &Key) -> &'static str {
        let (role, tied) = {
            let world = self.ctx.world.lock();
            (world.role_of(&key.kind), world.ties.contains_key(&key.name))
        };
        match (&key.plane, role) {
            (Plane::Project(_), Some(Role::Federated(_))) => "federator",
            (Plane::Project(_), Some(Role::Workloads)) => "workload",
            (Plane::Hub, Some(Role::Namespaces)) if tied => "namespaces",
            (Plane::Hub, Some(Role::CityPolicies)) => "policies",
            (Plane::Hub, Some(Role::Interpreters)) => "interpreters",
            (Plane::Hub, Some(Role::Namespaces | Role::CitySets | Role::Federated(_) | Role::Bindings)) => {
                "garbage"
            }
            (Plane::Hub, Some(Role::WrittenBack(_))) => "projector",
            (Plane::Hub, Some(role)) if companions::kind_of(role).is_some() => "companions",
            _ => "none",
        }
    }

    async fn reconcile(&self, key: &Key, woken: Instant, wrote: &AtomicBool) -> Result<Next, Failure> {
        let ctx = &Turn::new(&self.ctx, woken, wrote);
        let (role, tied) = {
            let world = ctx.world.lock();
            (world.role_of(&key.kind), world.ties.contains_key(&key.name))
        };
        let Some(role) = role else {
            return Ok(Next::OnEvent);
        };
        match (&key.plane, role) {
            (Plane::Project(project), Role::Federated(_)) => {
                self.federator.reconcile(ctx, key, project).await
            }
            (Plane::Project(project), Role::Workloads) => self.workloads.reconcile(ctx, key, project).await,
            (Plane::Hub, Role::Namespaces) if tied => {
                self.garbage.lives(key);
                namespaces::reconcile(ctx, key).await
            }
            (Plane::Hub, Role::Namespaces) => self.garbage.namespace(ctx, key).await,
            (Plane::Hub, Role::CityPolicies) => policies::reconcile(ctx, &key.namespace).await,
            (Plane::Hub, Role::CitySets) => self.garbage.city_set(ctx, key).await,
            (Plane::Hub, Role::Interpreters) => self.interpreters.reconcile(ctx, &key.name).await,
            (Plane::Hub, Role::Federated(kind)) => self.garbage.copy(ctx, key, kind).await,
            (Plane::Hub, Role::Bindings) => self.garbage.binding(ctx, key).await,
            (Plane::Hub, Role::WrittenBack(_)) => self.projector.reconcile(ctx, key).await,
            (Plane::Hub, role) => match companions::kind_of(role) {
                Some(kind) => companions::reconcile(ctx, key, kind).await,
                None => Ok(Next::OnEvent),
            },
            (Plane::Project(_) | Plane::Cell, _) => Ok(Next::OnEvent),
        }
    }
}

#[cfg(test)]
mod tests;
