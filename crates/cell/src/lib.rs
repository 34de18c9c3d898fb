//! The role `cell`: from a `WorkloadDeployment` to running Instances, and back to the hub (contract: cell.md).
//!
//! * [`rollout`]: which Instances in which order, a library of values; [`instance_types`]: sizes; [`settings`]: settings and
//!   limits.
//! * [`deployment`], [`instance`], [`provider`], [`release`]: the controllers. The network of a deployment is in [`network`],
//!   quota and write-back of an Instance in [`instance`].
//! * [`index`]: digests of the watched objects; [`conditions`], [`context`], [`reason`], [`writes`]: shared by the
//!   controllers; [`projects`]: the projects whose quota claims are watched.

#![forbid(unsafe_code)]

pub mod conditions;
pub mod context;
pub mod deployment;
pub mod index;
pub mod instance;
pub mod instance_types;
pub mod network;
mod operations;
pub mod projects;
pub mod provider;
pub mod reason;
pub mod release;
pub mod rollout;
pub mod settings;
#[cfg(test)]
pub(crate) mod testing;
pub mod writes;

use context::{Context, Shared, State};
use deployment::Deployments;
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    metrics::{Gauges, PlaneKind},
    plan::Requeue,
    plane::{client::Connection, discovery::ProjectEvent},
    runtime::{self, Runtime, driver, index::Triggers, queue::Priority, role::Role},
};
use index::{CellIndex, CellLocation, change::Change, tables::TableId, watches::Command};
use instance::Instances;
use parking_lot::Mutex;
use projects::{KnownProjects, Projects};
use provider::Provider;
use settings::Settings;
use std::{sync::Arc, time::Duration};

/// Interval at which parked keys are enqueued: no event may report the change that they wait for.
pub const SWEEP_INTERVAL: Duration = Duration::from_mins(5);

/// Engagement of the cell's own plane.
const OWN_ENGAGEMENT: u64 = 0;

/// The planes of a cell, and what it reads of them.
pub struct Setup {
    /// Connection to the cell's own API server.
    pub cell: Connection,
    /// Connection to the hub, if the cell has one.
    pub hub: Option<Connection>,
    /// Source of the connections to projects for quota.
    pub projects: Projects,
    /// Settings.
    pub settings: Settings,
}

/// The triggers of each controller.
const TRIGGERS: [Triggers<CellIndex>; 4] = [
    deployment::triggers::triggers,
    instance::triggers::triggers,
    provider::triggers::triggers,
    release::triggers,
];

/// The cell's controllers, and its connections.
pub struct Cell {
    deployments: Deployments,
    instances: Instances,
    provider: Provider,
    hub: Option<Connection>,
    projects: Projects,
    known: Mutex<KnownProjects>,
    /// The last known location.
    location: Mutex<Option<CellLocation>>,
}

/// Creates a cell; no key is reconciled before [`Runtime::run`].
pub fn new(of: Setup, setup: runtime::Setup) -> Arc<Runtime<Cell>> {
    let settings = Arc::new(of.settings);
    let index = CellIndex::new(settings.clone());
    let tables = index.cell_tables();
    let role = Cell {
        deployments: Deployments::default(),
        instances: Instances::default(),
        provider: Provider::default(),
        hub: of.hub,
        projects: of.projects,
        known: Mutex::default(),
        location: Mutex::new(index.settled_location()),
    };
    let state = State {
        settings,
        ..State::default()
    };
    let runtime = Runtime::new(role, state, index, setup);
    let Runtime { role, shared, .. } = &*runtime;
    shared
        .planes
        .engage(&Plane::Cell, OWN_ENGAGEMENT, of.cell, &tables);
    role.engage_hub(shared);
    runtime
}

impl Cell {
    /// Watches the hub from a fresh list. The cell watches only the deployments of its city and location.
    fn engage_hub(&self, shared: &Shared) {
        let Some(hub) = &self.hub else { return };
        let tables = shared.index.lock().hub_tables();
        let engagement = self.known.lock().next_engagement();
        shared
            .planes
            .engage(&Plane::Hub, engagement, hub.clone(), &tables);
    }

    /// Lists the hub's deployments again if the cell is in another city now.
    fn relocate(&self, shared: &Shared) {
        let now = shared.index.lock().settled_location();
        if now.is_none() || now == *self.location.lock() {
            return;
        }
        tracing::info!(?now, "the cell's location has changed");
        *self.location.lock() = now;
        self.engage_hub(shared);
        // Writes that were due in between were not sent: reconcile the Instances again.
        let keys = shared.index.lock().instance_keys();
        shared.queue.extend(keys, Priority::Backlog);
    }
}

impl Role for Cell {
    type State = State;

    const LEASE_PLANE: PlaneKind = PlaneKind::Cell;
    const PLANES: &'static [PlaneKind] = &[PlaneKind::Cell, PlaneKind::Hub, PlaneKind::Project];
    const CONTROLLERS: &'static [&'static str] = &["deployment", "instance", "provider", "releases"];

    fn expects_conflict(_: &Failure) -> bool {
        true
    }

    fn triggers(index: &CellIndex, change: &Change, keys: &mut Vec<Key>) {
        for triggers in TRIGGERS {
            triggers(index, change, keys);
        }
    }

    fn controller(&self, shared: &Shared, key: &Key) -> &'static str {
        match shared.index.lock().table_of_key(key) {
            Some(TableId::Deployments) => "deployment",
            Some(TableId::Instances) => "instance",
            Some(TableId::Pods) => "provider",
            Some(TableId::Releases) => "releases",
            _ => "none",
        }
    }

    async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        let table = ctx.index.lock().table_of_key(key);
        match table {
            Some(TableId::Deployments) => driver::reconcile(&self.deployments, ctx, key).await,
            Some(TableId::Instances) => self.instances.reconcile(ctx, key).await,
            Some(TableId::Pods) => driver::reconcile(&self.provider, ctx, key).await,
            Some(TableId::Releases) => release::reconcile(ctx, key).await,
            _ => Ok(Requeue::AwaitChange),
        }
    }

    fn on_command(&self, shared: &Shared, command: Command) {
        match command {
            Command::LocationChanged => self.relocate(shared),
            Command::WatchPods => {
                tracing::warn!(
                    "Instances carry the finalizer of the Pod provider, which is off (--provider=none): their Pods are \
                     looked at until they end; the cell needs the rights of manifests/cell/provider-role.yaml for that"
                );
                shared.planes.watch_more(&Plane::Cell, &TableId::PROVIDER);
            }
            Command::ConnectProject(project) => self.want_project(shared, &mut self.known.lock(), &project),
        }
    }

    fn on_project(&self, shared: &Shared, event: ProjectEvent) {
        self.apply_discovery(shared, &mut self.known.lock(), event);
    }

    /// Retries at once all keys that waited for a plane.
    fn on_recovered(&self, shared: &Shared, plane: &Plane) {
        shared.release_timers.lock().remove(plane);
        let keys = {
            let mut index = shared.index.lock();
            let mut keys: Vec<Key> = match plane {
                Plane::Project(project) => {
                    index.quota_answered(project);
                    index.keys_of_project(project)
                }
                Plane::Hub | Plane::Cell | Plane::Home => Vec::new(),
            };
            keys.extend(index::keys_of(&index.releases, TableId::Releases));
            keys
        };
        shared.queue.extend(keys, Priority::Fresh);
        shared.queue.retry_failed(|_| true);
    }

    fn sweep(&self, shared: &Shared) -> Vec<Key> {
        Self::release_unneeded(shared, &mut self.known.lock());
        Vec::new()
    }

    fn prune(&self, shared: &Shared) {
        let now = shared.now().instant;
        for throttle in [
            &self.deployments.written,
            &self.instances.progress,
            &self.provider.progress,
        ] {
            throttle.prune(now);
        }
        {
            let index = shared.index.lock();
            shared
                .quarantine
                .retain(|key| index.namespaces.get("", &key.namespace).is_some());
        }
        self.retry_connections(shared, &mut self.known.lock());
    }

    /// Checks that the lists of the cell's own plane are complete. The hub and projects may be down: the cell
    /// continues.
    fn ready(&self, shared: &Shared) -> Result<(), String> {
        shared.index.lock().missing().map_or(Ok(()), Err)
    }

    fn gauges(&self, shared: &Shared, into: &mut Gauges) {
        operations::gauges(shared, into);
    }

    fn describe(&self, _: &Shared, index: &CellIndex) -> serde_json::Map<String, serde_json::Value> {
        operations::describe(index)
    }
}
