//! The gateway's answers to the operations API, from the index and the runtime (contract: operations.md §2).
//!
//! No answer reads an object's body or sends a request. The index is locked for slices of [`SLICE`] rows.

#![forbid(unsafe_code)]

mod cells;
mod flows;
mod next_step;
mod overview;
mod projects;
mod stuck;
mod trace;

#[cfg(test)]
mod tests;

use fedgate_api::names::ProjectKey;
use fedgate_engine::{
    key::{Key, Plane},
    metrics::Holder,
    runtime::{Runtime, inspect::SLICE},
};
use fedgate_gateway::{
    Gateway,
    context::scan_projects,
    index::{GatewayIndex, NamespaceOwner, TableId},
    queries::lifecycle::home_of,
};
use fedgate_operations::views::{
    header::{self, Process},
    journal, planes,
    stuck::{self as views, Found},
};
use fedgate_operations::{
    CellDetail, CellRow, Changes, Flows, Header, JournalRow, NoAnswer, OperationsSource, Overview, PlaneRow,
    ProjectDetail, ProjectRow, RefusedProject, Rows, StuckGroup, StuckItem, Trace, TracedObject,
    query::{Query, STUCK_FOR},
};
use std::{
    collections::{BTreeSet, HashMap},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

/// The gateway's answers; see the module.
pub struct Operations {
    gateway: Arc<Runtime<Gateway>>,
    process: Process,
}

impl Operations {
    /// The answers of a running gateway.
    pub fn new(gateway: Arc<Runtime<Gateway>>, process: Process) -> Self {
        Self { gateway, process }
    }

    /// The index, under its lock.
    fn index(&self) -> impl Deref<Target = GatewayIndex> + '_ {
        self.gateway.shared.read_index(Holder::Operations)
    }

    /// Calls `read` with slices of these projects, each under one lock of the index.
    fn each_project<T>(
        &self,
        projects: &[ProjectKey],
        mut read: impl FnMut(&GatewayIndex, &ProjectKey) -> Option<T>,
    ) -> Vec<T> {
        let mut rows = Vec::new();
        for slice in projects.chunks(SLICE) {
            let index = self.index();
            rows.extend(slice.iter().filter_map(|project| read(&index, project)));
        }
        rows
    }

    /// Visits the hub namespaces that have owners, in slices as [`Operations::each_project`] does.
    fn each_owner(&self, mut visit: impl FnMut(&GatewayIndex, &str, &NamespaceOwner)) {
        let hubs: Vec<Arc<str>> = self.index().owners.keys().cloned().collect();
        for slice in hubs.chunks(SLICE) {
            let index = self.index();
            let owned = slice.iter().filter_map(|hub| Some((hub, index.owners.get(hub)?)));
            owned.for_each(|(hub, owner)| visit(&index, hub, owner));
        }
    }

    /// The engaged projects, in order.
    fn project_keys(&self) -> Vec<ProjectKey> {
        let mut projects = Vec::new();
        scan_projects(&self.gateway.shared, Holder::Operations, |_, key, _| {
            projects.push(key.clone());
        });
        projects
    }

    fn found(&self, stuck_for: Duration, with_unavailable: bool) -> Vec<Found> {
        stuck::found(self, &self.gateway.survey(), stuck_for, with_unavailable)
    }

    /// Why nothing is delivered to the hub, while it is down. Without a Lease no tenant is told, so the operator is.
    fn hub_outage(&self) -> Option<String> {
        let since = *planes::down(&self.gateway).get(&Plane::Hub)?;
        Some(format!("the hub has not answered since {since}"))
    }
}

/// The project, namespace, kind and name of a key as its tenant knows it.
fn name_of(index: &GatewayIndex, key: &Key) -> StuckItem {
    let plural = key.kind.as_str().split('.').next().unwrap_or_default();
    let home = home_of(index, key);
    let (project, namespace) = match &home {
        Some((project, namespace)) => (Some(project.as_str()), namespace),
        None => (None, &key.namespace),
    };
    StuckItem {
        cell: author_of(index, key).unwrap_or_default(),
        ..views::item(key, project, namespace, plural)
    }
}

/// The cell that has written a write-back.
fn author_of(index: &GatewayIndex, key: &Key) -> Option<String> {
    let table = index
        .table_of_kind(&key.kind)
        .filter(|_| key.plane == Plane::Hub)?;
    let TableId::WrittenBack(kind) = table else {
        return None;
    };
    let row = index.hub.write_backs[kind].get(&key.namespace, &key.name)?;
    row.digest.cell.as_deref().map(str::to_owned)
}

/// Maximum number of rows in the lists of a detail.
const DETAILS: usize = 200;

/// The stuck objects of a detail.
fn items(found: &[&Found]) -> Vec<StuckItem> {
    found.iter().take(DETAILS).map(|one| one.item.clone()).collect()
}

/// Stuck objects by project.
fn by_project(found: &[Found]) -> HashMap<&str, Vec<&Found>> {
    let mut all: HashMap<&str, Vec<&Found>> = HashMap::new();
    for one in found.iter().filter(|one| !one.item.project.is_empty()) {
        all.entry(one.item.project.as_str()).or_default().push(one);
    }
    all
}

impl OperationsSource for Operations {
    fn header(&self) -> Header {
        header::header(&self.gateway, &self.process)
    }

    fn overview(&self) -> Overview {
        overview::overview(self)
    }

    fn planes(&self, query: &Query) -> (Rows<PlaneRow>, Vec<RefusedProject>) {
        planes::rows(&self.gateway, query)
    }

    fn stuck(&self, query: &Query) -> Rows<StuckGroup> {
        let with_unavailable = query.class == Some(fedgate_operations::Class::Unavailable);
        let found = self.found(query.stuck_for.unwrap_or(STUCK_FOR), with_unavailable);
        views::page(views::groups(found, query, next_step::next_step), query)
    }

    fn journal(&self, query: &Query) -> Rows<JournalRow> {
        let entries = self.gateway.shared.executor.journal().entries();
        let owner = |key: &Key| home_of(&self.index(), key);
        journal::rows(&entries, query, owner)
    }

    fn projects(&self, query: &Query) -> Result<Rows<ProjectRow>, NoAnswer> {
        Ok(projects::rows(self, query))
    }

    fn project(&self, project: &str) -> Result<ProjectDetail, NoAnswer> {
        projects::detail(self, project)
    }

    fn project_rows(&self, projects: &BTreeSet<String>) -> Vec<ProjectRow> {
        let keys: Vec<ProjectKey> = projects
            .iter()
            .filter_map(|key| ProjectKey::parse(key).ok())
            .collect();
        projects::rows_of(self, &keys, &self.found(STUCK_FOR, true))
    }

    fn cells(&self, query: &Query) -> Result<Rows<CellRow>, NoAnswer> {
        Ok(cells::rows(self, query))
    }

    fn cell(&self, cell: &str) -> Result<CellDetail, NoAnswer> {
        cells::detail(self, cell)
    }

    fn cell_rows(&self, cells: &BTreeSet<String>) -> Vec<CellRow> {
        cells::rows_of(self, |name| cells.contains(name))
    }

    fn flows(&self, query: &Query) -> Result<Flows, NoAnswer> {
        Ok(flows::flows(self, query))
    }

    fn trace(&self, object: &TracedObject) -> Result<Trace, NoAnswer> {
        trace::trace(self, object)
    }

    fn collect_changes(&self, on: bool) {
        self.gateway.shared.index.lock().touched.collect(on);
    }

    fn take_changes(&self) -> Changes {
        self.gateway.shared.index.lock().touched.take()
    }
}

/// The reason of a deployment that waits for a hub that is down.
const HUB_UNREACHABLE: &str = "HubUnreachable";
