//! Snapshot of the cells and of the deployments that may have to move.

use crate::{
    index::{
        GatewayIndex, ObjectRef,
        derived::{project_hub::NamedHub, secondary::only_cell},
        intents::moves::PlannedMove,
        rows::{Binding, Cell},
    },
    route::Route,
};
use fedgate_api::names::{CityCode, ProjectKey};
use fedgate_engine::{clock::Now, store::table::Row};
use fedgate_kinds::{FederatedKind, PerKind};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The hub as moves see it.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    /// All federated kinds.
    pub(super) kinds: Arc<PerKind<FederatedKind>>,
    /// The cells with a city, by name.
    pub(super) cells: BTreeMap<Arc<str>, CellSnapshot>,
    /// The deployments that can move now, of those at cells that are drained, not ready or were lost, and those that an operator moves.
    pub(super) deployments: Vec<Deployment>,
    /// True if a deployment at one of these cells, or one that an operator moves, cannot move now. The cause may end without an event
    /// that enqueues the planner.
    pub(super) has_others: bool,
    /// The moves that are under way.
    pub(super) started: Vec<StartedMove>,
}

/// A cell.
#[derive(Debug, Clone)]
pub(super) struct CellSnapshot {
    pub(super) row: Row<Cell>,
    pub(super) city: CityCode,
    /// The sum of the replicas of the deployments that are there alone.
    pub(super) load: u64,
}

/// A deployment that runs at one cell and is not moved.
#[derive(Debug, Clone)]
pub(super) struct Deployment {
    pub(super) object: ObjectRef,
    pub(super) cell: Arc<str>,
    pub(super) route: Route,
    pub(super) replicas: u32,
    /// The cell to which an operator moves it.
    pub(super) requested: Option<Arc<str>>,
    /// Of a move that was cancelled: the cell at which it did not become healthy, and the time until it may move again.
    pub(super) cancelled: Option<(Option<Arc<str>>, Option<Duration>)>,
    /// The move that was planned before.
    pub(super) planned: Option<PlannedMove>,
}

/// A move that is under way.
#[derive(Debug, Clone)]
pub(super) struct StartedMove {
    pub(super) city: CityCode,
    /// `None` if the task is another client's, or its reason or time cannot be read.
    pub(super) since: Option<Timestamp>,
}

impl Snapshot {
    /// The deployments at the cells that a filter accepts.
    pub(super) fn at(&self, accepts: impl Fn(&Arc<str>) -> bool) -> impl Iterator<Item = &ObjectRef> {
        let all = self.deployments.iter().filter(move |of| accepts(&of.cell));
        all.map(|of| &of.object)
    }
}

/// Takes the snapshot; `None` while the lists of the hub are incomplete. It reads the bindings of namespaces with deployments at cells that
/// are in doubt or were lost, and those of deployments that an operator moves.
pub(super) fn observe(index: &GatewayIndex, now: Now) -> Option<Snapshot> {
    if !index.hub_ready() || !index.hub.clusters.proves() {
        return None;
    }
    let cells = index.hub.clusters.iter().filter_map(|((_, name), row)| {
        let cell = CellSnapshot {
            city: row.digest.city.clone()?,
            row: row.clone(),
            load: index.hub.secondary.replicas_at(name),
        };
        Some((name.clone(), cell))
    });
    let started = index.hub.evictions.iter().filter_map(|object| {
        let binding = index.binding(object.kind, &object.hub, &object.name)?;
        let copy = index.hub.copies[object.kind].get(&object.hub, &object.name)?;
        Some(StartedMove {
            city: copy.digest.city.clone()?,
            since: binding.digest.eviction.as_ref()?.moved.map(|(_, since)| since),
        })
    });
    let mut snapshot = Snapshot {
        kinds: index.kinds.clone(),
        cells: cells.collect(),
        deployments: Vec::new(),
        has_others: false,
        started: started.collect(),
    };
    deployments(index, now, &mut snapshot);
    Some(snapshot)
}

fn deployments(index: &GatewayIndex, now: Now, snapshot: &mut Snapshot) {
    let hub = &index.hub;
    let is_left = |name: &Arc<str>, of: &CellSnapshot| {
        of.row.digest.is_in_doubt() || index.intents.moves.lost.contains_key(name)
    };
    let left = snapshot.cells.iter().filter(|(name, of)| is_left(name, of));
    let namespaces: BTreeSet<&Arc<str>> = left
        .flat_map(|(cell, _)| hub.secondary.namespaces_at(cell))
        .collect();
    let there = namespaces.into_iter().flat_map(|namespace| {
        let all = hub.bindings.in_namespace(namespace);
        all.map(move |(_, row)| (namespace, row))
    });
    let requested = hub.requests.iter().filter_map(|of| {
        let row = index.binding(of.kind, &of.hub, &of.name)?;
        Some((&of.hub, row))
    });
    let mut movable = BTreeMap::new();
    for (namespace, row) in there.chain(requested) {
        let Some((kind, cell)) = only_cell(&index.kinds, &row.digest) else {
            continue;
        };
        let Some(at) = snapshot.cells.get(cell) else {
            continue;
        };
        let object = ObjectRef::new(kind, namespace, &row.digest.name);
        if is_left(cell, at) || hub.requests.contains(&object) {
            movable.insert(object, (cell, row));
        }
    }
    for (object, (cell, row)) in movable {
        match deployment(index, now, object, cell, row) {
            Some(deployment) => snapshot.deployments.push(deployment),
            None => snapshot.has_others = true,
        }
    }
    // The first deployments of all projects come before the second ones, so that no project keeps the others waiting.
    let mut ranks: BTreeMap<Option<&ProjectKey>, usize> = BTreeMap::new();
    snapshot.deployments.sort_by_cached_key(|of| {
        let rank = ranks
            .entry(index.owners.get(&of.object.hub).map(|owner| &owner.project))
            .or_default();
        *rank += 1;
        (*rank, of.object.clone())
    });
}

/// The deployment of a binding, if the federator can move it now.
fn deployment(
    index: &GatewayIndex,
    now: Now,
    object: ObjectRef,
    cell: &Arc<str>,
    binding: &Row<Binding>,
) -> Option<Deployment> {
    let copy = index.hub.copies[object.kind].get(&object.hub, &object.name)?;
    let owner = index.owners.get(&object.hub)?;
    let source = index.owned_source(object.kind, &object.hub, &object.name)?;
    let project = index.projects.get(&owner.project)?;
    let is_settled = binding.digest.owner.as_ref() == Some(&copy.uid) && binding.digest.eviction.is_none();
    let is_ours = copy.digest.source_uid.as_ref() == Some(&source.uid)
        && index.is_complete(&owner.project)
        && index.named_hub(project, &owner.namespace, source) != NamedHub::Other;
    // A copy whose deployment names another city that is served is to go there. If the other city is not served, the copy stays in its
    // city, and can move between the cells there.
    let route = copy.digest.route()?;
    let goes = index.city_route(&source.digest.place).is_ok_and(|to| {
        copy.digest.city.as_ref() != Some(&to.city) && index.is_served(&object.hub, &to.city)
    });
    if !is_settled || !is_ours || goes || source.deleting || copy.deleting || binding.deleting {
        return None;
    }
    let cancelled = index.intents.moves.cancelled(&object);
    Some(Deployment {
        cell: cell.clone(),
        route,
        replicas: binding.digest.replicas.max(1),
        requested: copy.digest.move_to().cloned(),
        planned: index.intents.moves.planned.get(&object).cloned(),
        cancelled: cancelled.map(|of| (of.to.clone(), of.wait(now))),
        object,
    })
}
