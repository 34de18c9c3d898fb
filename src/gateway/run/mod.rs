//! The running gateway: engages and disengages planes, fills the index from watches, and runs the workers of the queue.

mod gauges;
mod links;

use super::{
    companions,
    context::{Context, Settings, Shared},
    federator::Federator,
    garbage::Garbage,
    index::{GatewayIndex, NamespaceOwner, TableId, networking::WorkloadChecks},
    interpreters::Interpreters,
    namespaces, policies,
    projector::Projector,
    rate_limit::RateLimiter,
    workload::Workloads,
};
use fedgate_api::names::{HubNamespace, ProjectKey};
use fedgate_engine::random::HashSet;
use fedgate_engine::{
    clock::Clock,
    error::Failure,
    executor::{Executor, PlaneAccess},
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
use fedgate_kinds::FederatedKind;
use futures::{Stream, StreamExt};
use links::{Command, Links};
use parking_lot::Mutex;
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// Parts of a gateway.
#[derive(Debug)]
pub struct Setup {
    /// Connection to the hub.
    pub hub: Connection,
    /// The federated kinds.
    pub kinds: Vec<FederatedKind>,
    /// Settings.
    pub settings: Settings,
    /// The Lease that permits writes.
    pub lease: LeaseHandle,
    /// Name of this replica.
    pub identity: String,
    /// Number of keys that are reconciled concurrently.
    pub workers: usize,
    /// The metrics of the process.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: Clock,
}

/// Divisor of the workers: a lane may use at most one half of them.
const LANE_SHARE: usize = 2;

/// A project whose lists are incomplete after this time no longer delays readiness.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of rejected claims that `/debug/planes` shows.
const CLAIMS_SHOWN: usize = 1_000;

/// Longest time between two ticks of the main loop.
const TURN_EVERY: Duration = Duration::from_secs(5);

/// A main loop without a tick for this time is dead.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// The gateway; see the module.
pub struct Gateway {
    links: Arc<Links>,
    ctx: Shared,
    federator: Federator,
    projector: Projector,
    workloads: Workloads,
    interpreters: Interpreters,
    garbage: Garbage,
    workers: Arc<Workers>,
    last_tick: Mutex<Instant>,
    commands: Mutex<Option<mpsc::UnboundedReceiver<Command>>>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gateway")
    }
}

impl Gateway {
    /// Creates a gateway; no request is sent before [`Gateway::run`].
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
        let mut index = GatewayIndex::new(Arc::new(kinds), checks);
        index.largest_spec = settings.max_spec_size;
        let index = Arc::new(Mutex::new(index));
        let queue = Arc::new(Queue::new((workers / LANE_SHARE).max(1)));
        let (commands, receiver) = mpsc::unbounded_channel();
        let links = Arc::new(Links {
            index: index.clone(),
            queue: queue.clone(),
            planes: PlaneRegistry::default(),
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
            ctx: Shared {
                index,
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
            last_tick: Mutex::new(Instant::now()),
            commands: Mutex::new(Some(receiver)),
        });
        let roles = gateway.ctx.index.lock().hub_roles();
        links.engage(&Plane::Hub, 0, hub, &roles);
        gateway
    }

    /// Runs until `shutdown`; then waits for the writes in flight, and abandons those to a plane that does not answer.
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
                leads = leading.changed() => {
                    tracing::info!(leads, "leadership changed");
                    if leads {
                        let change = self.ctx.index.lock().lead();
                        self.links.refused(&change.refused);
                        self.ctx.queue.extend(change.keys, Priority::Fresh);
                        self.garbage.reset();
                        self.requeue_all();
                    }
                }
                _ = turns.tick() => {
                    *self.last_tick.lock() = Instant::now();
                    self.prune();
                }
                _ = sweep.tick() => self.sweep(),
                Some(command) = commands.recv() => self.command(command),
                Some(change) = projects.next() => self.project(change),
            }
        }
        self.links.lease.revoke();
        self.ctx.queue.close();
        // The task ends after the last reconcile; a panic of a reconcile has been caught.
        let _ = work.await;
        // The watches hold the gateway: without this, another gateway in the same process would run beside this one.
        self.links.planes.lock().clear();
    }

    /// An error if the main loop has no tick for `STALL_TIMEOUT`.
    pub fn live(&self) -> Result<(), String> {
        let stood = self.last_tick.lock().elapsed();
        if stood > STALL_TIMEOUT {
            return Err(format!("the main loop has stood still for {} s", stood.as_secs()));
        }
        Ok(())
    }

    /// An error until the hub's first lists are complete, and while those of a project that answers are not, for at
    /// most `READY_TIMEOUT`.
    pub fn ready(&self) -> Result<(), String> {
        let index = self.ctx.index.lock();
        if !index.hub_ready() {
            return Err("the hub's first lists are not complete".to_owned());
        }
        let planes = self.links.planes.lock();
        for (plane, engaged) in planes.iter() {
            let Plane::Project(key) = plane else { continue };
            // A project without Locations or Networks does answer.
            let failing = engaged.watches.iter().any(|(role, health)| {
                health.restarts() > 0 && !matches!(role, TableId::Locations | TableId::Networks)
            });
            if !index.project_ready(key) && !failing && engaged.since.elapsed() < READY_TIMEOUT {
                return Err(format!("the first lists of project {key} are not complete"));
            }
        }
        Ok(())
    }

    /// The state of every plane and watch, for `/debug/planes`.
    pub fn describe(&self) -> serde_json::Value {
        let index = self.ctx.index.lock();
        let depth = self.ctx.queue.depth();
        let missing = self.ctx.executor.missing_rights();
        let planes: Vec<serde_json::Value> = self
            .links
            .planes
            .lock()
            .iter()
            .map(|(plane, engaged)| {
                let ready = match plane {
                    Plane::Hub => index.hub_ready(),
                    Plane::Project(key) => index.project_ready(key),
                    Plane::Cell => false,
                };
                let watches: Vec<_> = engaged
                    .watches
                    .iter()
                    .map(|(role, health)| {
                        serde_json::json!({
                            "kind": index.kind_of(*role).as_str(),
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
            "rejectedClaims": index.refused_claims().take(CLAIMS_SHOWN)
                .map(|refusal| serde_json::json!({
                    "hubNamespace": &*refusal.hub, "holder": refusal.holder.to_string(),
                    "project": refusal.claimant.project.as_str(), "namespace": &*refusal.claimant.namespace,
                }))
                .collect::<Vec<_>>(),
            "garbageBrake": self.garbage.brake() || index.withholds(),
            "garbageBrakes": self.garbage.brakes(),
            "interpreterDrift": self.interpreters.drift(),
            "leading": self.links.lease.may_write(),
        })
    }

    /// Forgets state of disengaged projects that was recorded too late to be forgotten with them, and cached clients,
    /// which are quick to create again.
    fn prune(&self) {
        let engaged: HashSet<Plane> = {
            let planes = self.links.planes.lock();
            planes
                .values()
                .for_each(|engaged| engaged.connection.current().release_client());
            planes.keys().cloned().collect()
        };
        self.ctx.executor.retain(|plane| engaged.contains(plane));
        let mut index = self.ctx.index.lock();
        index.prune_unowned();
        index.forget_withheld(self.ctx.settings.projection_retention);
        self.federator.prune(&self.ctx, &index);
        self.projector.prune(&self.ctx, &index);
        self.workloads.prune(&index);
        self.garbage.prune(&index, self.ctx.now());
        let is_engaged = |project: &ProjectKey| index.projects.contains_key(project);
        self.ctx.rate_limiter.lock().prune(is_engaged, self.ctx.now());
        self.ctx.quarantine.retain(|key| match &key.plane {
            Plane::Project(project) => index.projects.contains_key(project),
            Plane::Hub => {
                let cluster_wide = key.namespace.is_empty();
                let hub = if cluster_wide { &key.name } else { &key.namespace };
                HubNamespace::parse(hub).is_none() || index.owners.contains_key(hub)
            }
            Plane::Cell => false,
        });
    }

    /// Enqueues suspected objects and no others: every other decision is enqueued by the event that may change the
    /// decision, or by its own requeue time, so that an idle object costs no request.
    ///
    /// Suspected are orphans, which share their project's brake, and keys that wait for a change which may end without
    /// an event: no event reports that a project is resumed, and a replica of an API server may reject a write for a
    /// while that the others already accept.
    fn sweep(&self) {
        let stranded = self.workers.take_parked();
        let suspects = self.garbage.suspects().into_iter().chain(stranded);
        self.ctx.queue.extend(suspects, Priority::Backlog);
    }

    /// Enqueues all keys.
    fn requeue_all(&self) {
        let (uncarried, keys) = {
            let index = self.ctx.index.lock();
            (index.unsynced_spec_keys(&Plane::Hub), index.ready_keys())
        };
        self.ctx.queue.extend(uncarried, Priority::Fresh);
        self.ctx.queue.extend(keys, Priority::Backlog);
    }

    /// Retries at once all keys that failed, possibly because of this plane.
    fn retry_failed(&self, plane: &Plane) {
        let hubs: HashSet<Arc<str>> = {
            let index = self.ctx.index.lock();
            let ours = |owner: &NamespaceOwner| matches!(plane, Plane::Project(key) if *key == owner.project);
            let owners = index.owners.iter().filter(|(_, owner)| ours(owner));
            owners.map(|(hub, _)| hub.clone()).collect()
        };
        self.ctx
            .queue
            .retry_failed(|key| *plane == Plane::Hub || key.plane == *plane || hubs.contains(&key.namespace));
    }

    fn project(&self, change: ProjectEvent) {
        match change {
            ProjectEvent::Engaged { key, connection } => {
                tracing::info!(project = %key, "project engaged");
                let plane = Plane::Project(key.clone());
                let (engagement, roles) = {
                    let mut index = self.ctx.index.lock();
                    (index.engage(key), index.project_roles())
                };
                self.links.engage(&plane, engagement, connection, &roles);
            }
            ProjectEvent::Removed { key } => {
                tracing::info!(project = %key, "project removed; its objects on the hub are kept");
                let plane = Plane::Project(key.clone());
                self.links.planes.lock().remove(&plane);
                self.ctx.executor.forget(&plane);
                self.ctx.quarantine.forget(&plane);
                self.workers.failures().forget(&plane);
                let change = self.ctx.index.lock().disengage(&key);
                self.links.refused(&change.refused);
                self.ctx.queue.extend(change.keys, Priority::Fresh);
            }
            ProjectEvent::Rejected { name, error } => {
                tracing::warn!(project = name, %error, "project rejected; the others continue");
            }
            ProjectEvent::RejectionCleared { name } => {
                tracing::info!(project = name, "the rejected credential was removed");
            }
        }
    }

    fn command(&self, command: Command) {
        match command {
            Command::WatchReferences(key, engagement) => {
                let plane = Plane::Project(key);
                // A project that is engaged again meanwhile sends its own command.
                if self.links.engagement(&plane) == engagement {
                    self.links
                        .watch_more(&plane, &[TableId::ConfigMaps, TableId::Secrets]);
                }
            }
            Command::CredentialChanged(plane) => {
                self.ctx.executor.forget(&plane);
                self.retry_failed(&plane);
            }
            Command::PlaneRecovered(plane) => {
                self.retry_failed(&plane);
            }
            Command::PermissionGranted(plane) => self.retry_failed(&plane),
            Command::Rewound(plane, engagement, anew) => {
                self.garbage.reset();
                self.links.relist_plane(&plane, engagement, anew);
            }
        }
    }
}

impl Role for Gateway {
    fn controller(&self, key: &Key) -> &'static str {
        let (role, owned) = {
            let index = self.ctx.index.lock();
            (index.role_of(&key.kind), index.owners.contains_key(&key.name))
        };
        match (&key.plane, role) {
            (Plane::Project(_), Some(TableId::Federated(_))) => "federator",
            (Plane::Project(_), Some(TableId::Workloads)) => "workload",
            (Plane::Hub, Some(TableId::Namespaces)) if owned => "namespaces",
            (Plane::Hub, Some(TableId::CityPolicies)) => "policies",
            (Plane::Hub, Some(TableId::Interpreters)) => "interpreters",
            (
                Plane::Hub,
                Some(TableId::Namespaces | TableId::CitySets | TableId::Federated(_) | TableId::Bindings),
            ) => "garbage",
            (Plane::Hub, Some(TableId::WrittenBack(_))) => "projector",
            (Plane::Hub, Some(role)) if companions::kind_of(role).is_some() => "companions",
            _ => "none",
        }
    }

    async fn reconcile(&self, key: &Key, change: Instant, wrote: &AtomicBool) -> Result<Requeue, Failure> {
        let ctx = &Context::new(&self.ctx, change, wrote);
        let (role, owned) = {
            let index = ctx.index.lock();
            (index.role_of(&key.kind), index.owners.contains_key(&key.name))
        };
        let Some(role) = role else {
            return Ok(Requeue::AwaitChange);
        };
        match (&key.plane, role) {
            (Plane::Project(project), TableId::Federated(_)) => {
                self.federator.reconcile(ctx, key, project).await
            }
            (Plane::Project(project), TableId::Workloads) => {
                self.workloads.reconcile(ctx, key, project).await
            }
            (Plane::Hub, TableId::Namespaces) if owned => {
                self.garbage.lives(key);
                namespaces::reconcile(ctx, key).await
            }
            (Plane::Hub, TableId::Namespaces) => self.garbage.namespace(ctx, key).await,
            (Plane::Hub, TableId::CityPolicies) => policies::reconcile(ctx, &key.namespace).await,
            (Plane::Hub, TableId::CitySets) => self.garbage.city_set(ctx, key).await,
            (Plane::Hub, TableId::Interpreters) => self.interpreters.reconcile(ctx, &key.name).await,
            (Plane::Hub, TableId::Federated(kind)) => self.garbage.copy(ctx, key, kind).await,
            (Plane::Hub, TableId::Bindings) => self.garbage.binding(ctx, key).await,
            (Plane::Hub, TableId::WrittenBack(_)) => self.projector.reconcile(ctx, key).await,
            (Plane::Hub, role) => match companions::kind_of(role) {
                Some(kind) => companions::reconcile(ctx, key, kind).await,
                None => Ok(Requeue::AwaitChange),
            },
            (Plane::Project(_) | Plane::Cell, _) => Ok(Requeue::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests;
