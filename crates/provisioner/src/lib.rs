//! The role `provisioner`: the controller of Cells, which registers clusters with Karmada, drains them and takes them away (contract:
//! provisioning.md §10).
//!
//! * [`cells`]: the controller; its keys are those of the Cells. Join, drain and leave are the code of `fedgate cells`: join.rs,
//!   drain.rs and leave.rs of `fedgate_operator::membership`.
//! * `cluster_api`: a Cluster of Cluster API is created, or used as it is.
//! * `hosts`: machines become a cluster, by kubeadm over SSH.
//! * [`index`]: the Cells, digests of the Clusters, and the metadata of the Secrets with the credentials.
//! * [`report`]: the results of the steps; [`reason`]: why a step is not reached; [`context`]: what the role shares; [`operations`]: its part of the operations API.

#![forbid(unsafe_code)]

pub mod cells;
mod cluster_api;
pub mod context;
mod hosts;
pub mod index;
mod operations;
pub mod reason;
pub mod report;

use cells::Cells;
use context::{Context, Shared, State};
use fedgate_api::cell::{CellPhase, ProviderKind};
use fedgate_engine::{
    error::Failure,
    key::{Key, Plane},
    metrics::{Family, Gauges, Holder, PlaneKind},
    plan::Requeue,
    plane::{client::Connection, discovery::ProjectEvent},
    runtime::{self, Runtime, driver, index::Index, role::Role},
};
use fedgate_kinds::FederatedKind;
use index::{CellsIndex, Change, TableId};
use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

/// Interval at which parked keys are enqueued: no event may report the change that they wait for.
pub const SWEEP_INTERVAL: Duration = Duration::from_mins(5);

/// Engagement of both planes.
const ENGAGEMENT: u64 = 0;

/// The planes of the role, and the kinds that a cell has to serve.
pub struct Setup {
    /// Connection to the hub.
    pub hub: Connection,
    /// Kubeconfig of the hub, for the steps.
    pub hub_kubeconfig: PathBuf,
    /// Connection to the cluster that has the Secrets.
    pub home: Connection,
    /// Namespace of the Secrets.
    pub namespace: Arc<str>,
    /// The kinds of providers that the role runs.
    pub providers: Vec<ProviderKind>,
    /// Namespaces in which Cells may use or create Clusters of Cluster API.
    pub cluster_api_namespaces: Vec<String>,
    /// Folder for keys of SSH while a step uses them.
    pub runtime_directory: PathBuf,
    /// The federated kinds.
    pub kinds: Vec<FederatedKind>,
}

/// The role's controller.
#[derive(Debug, Default)]
pub struct Provisioner {
    cells: Cells,
}

/// Creates the role; no key is reconciled before [`Runtime::run`].
pub fn new(of: Setup, setup: runtime::Setup) -> Arc<Runtime<Provisioner>> {
    hosts::delete_ssh_files(&of.runtime_directory);
    let state = State {
        namespace: of.namespace.clone(),
        hub_kubeconfig: of.hub_kubeconfig,
        lease: setup.lease.clone(),
        providers: of.providers,
        cluster_api_namespaces: of.cluster_api_namespaces,
        runtime_directory: of.runtime_directory,
        kinds: of.kinds.clone(),
    };
    let index = CellsIndex::new(of.namespace, of.kinds);
    let runtime = Runtime::new(Provisioner::default(), state, index, setup);
    let planes = &runtime.shared.planes;
    planes.engage(
        &Plane::Hub,
        ENGAGEMENT,
        of.hub,
        &[TableId::Cells, TableId::Clusters],
    );
    planes.engage(&Plane::Home, ENGAGEMENT, of.home, &[TableId::Secrets]);
    runtime
}

impl Role for Provisioner {
    type State = State;

    const LEASE_PLANE: PlaneKind = PlaneKind::Hub;
    const PLANES: &'static [PlaneKind] = &[PlaneKind::Hub, PlaneKind::Home];
    const CONTROLLERS: &'static [&'static str] = &["cells"];

    fn triggers(index: &CellsIndex, change: &Change, keys: &mut Vec<Key>) {
        index.keys_of(change, keys);
    }

    fn controller(&self, _: &Shared, _: &Key) -> &'static str {
        "cells"
    }

    async fn reconcile(&self, ctx: &Context<'_>, key: &Key) -> Result<Requeue, Failure> {
        driver::reconcile(&self.cells, ctx, key).await
    }

    /// Another replica may have changed anything meanwhile.
    fn on_leading(&self, _: &Shared) {
        self.cells.forget();
    }

    fn on_command(&self, _: &Shared, command: Infallible) {
        match command {}
    }

    fn on_project(&self, _: &Shared, _: ProjectEvent) {}

    fn on_recovered(&self, shared: &Shared, _: &Plane) {
        shared.queue.retry_failed(|_| true);
    }

    fn on_rewound(&self, _: &Shared) {
        self.cells.forget();
    }

    fn prune(&self, _: &Shared) {}

    /// Checks that all lists are complete.
    fn ready(&self, shared: &Shared) -> Result<(), String> {
        let missing = shared.index.lock().missing();
        missing.map_or(Ok(()), |kind| Err(format!("the list of {kind} is not complete")))
    }

    fn gauges(&self, shared: &Shared, into: &mut Gauges) {
        let index = &*shared.read_index(Holder::Metrics);
        for (plane, engaged) in shared.planes.lock().iter() {
            for (table, _) in &engaged.watches {
                let labels = [plane.kind(), &index.plural(*table)];
                into.set(Family::CachedObjects, &labels, index.len(*table));
            }
        }
        for phase in CellPhase::ALL {
            let cells = index.cells.iter();
            let count = cells.filter(|(_, row)| row.digest.phase() == phase).count();
            into.set(Family::CellObjects, &[phase.as_str()], count);
        }
    }

    fn describe(&self, _: &Shared, _: &CellsIndex) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}
