//! The part of the index that the way of a deployment follows from.

use crate::index::{
    GatewayIndex, ObjectRef,
    derived::undelivered::Since,
    rows::{Binding, HubCopy, Source, WorkloadDigest},
};
use fedgate_api::{
    Place, Workload,
    names::{CityCode, LocationName, ProjectKey},
};
use fedgate_engine::{key::Key, store::table::Row};
use fedgate_kinds::KindId;
use fedgate_operations::{InstanceRow, Stage};
use std::sync::Arc;

/// A deployment on its way. Without a name it is wanted, and does not exist.
#[derive(Debug, Clone)]
pub(super) struct Deployed {
    /// Key of the deployment, if it exists.
    pub(super) key: Option<Key>,
    /// Name of the deployment.
    pub(super) name: Arc<str>,
    /// Placement of the deployment.
    pub(super) placement: String,
    /// City of the deployment, or the location that its Workload names.
    pub(super) city: String,
    /// Hub namespace of the deployment; `None` while that belongs to another project namespace, or to none.
    pub(super) hub: Option<Arc<str>>,
    /// True if the lists that show its copy are complete.
    pub(super) is_hub_seen: bool,
    /// True if the lists that show its binding and its write-backs are complete.
    pub(super) is_complete: bool,
    /// The project's object.
    pub(super) source: Option<Row<Source>>,
    /// The hub's copy.
    pub(super) copy: Option<Row<HubCopy>>,
    /// Karmada's binding, and its name.
    pub(super) binding: (String, Option<Row<Binding>>),
    /// The policy of its city, which should claim the binding; empty if there is none.
    pub(super) policy: String,
    /// The Clusters of the binding.
    pub(super) cells: Vec<CellSeen>,
    /// Since when it waits on its way to the hub, to the cell, and back.
    pub(super) waits: [Option<Since>; 3],
    /// Since when the oldest of its Instances waits to be projected.
    pub(super) unprojected: Option<Since>,
    /// Instances of the deployment.
    pub(super) instances: Vec<InstanceRow>,
    /// Number of the project's Instances that it owns although no cell has written them back.
    pub(super) extra: usize,
}

/// A Cluster of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CellSeen {
    /// Name of the Cluster.
    pub(super) name: Arc<str>,
    /// Reason and `lastTransitionTime` of `Ready` if that is not True; `None` if it is.
    pub(super) problem: Option<(String, i64)>,
}

/// A placement of a Workload at one of the places that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The placement.
    pub(super) placement: String,
    /// The city or the location.
    pub(super) place: Place<String>,
}

impl Wanted {
    /// True if a deployment is that of this placement and place.
    pub(super) fn is(&self, workload: &Arc<str>, source: &Row<Source>) -> bool {
        let rollup = source.digest.rolled_up();
        let is_at = &source.digest.place;
        source.digest.controller.as_ref() == Some(workload)
            && rollup.is_some_and(|rollup| *rollup.placement == *self.placement)
            && match &self.place {
                Place::City(wanted) => is_at.city().is_some_and(|city| city.as_str() == wanted),
                other => {
                    let location = is_at.location().map(LocationName::as_str);
                    location == other.location().map(String::as_str)
                }
            }
    }
}

/// The placements of a Workload at the cities and locations that they name; none if the index does not keep its text.
pub(super) fn wanted(row: &Row<WorkloadDigest>) -> Vec<Wanted> {
    let text = row.digest.text().unwrap_or_default();
    let Ok(workload) = serde_json::from_str::<Workload>(text) else {
        return Vec::new();
    };
    let placements = workload.spec.placements.into_iter();
    placements
        .flat_map(|placement| {
            let name = placement.name;
            let cities = placement.city_codes.into_iter().map(Place::City);
            let locations = placement.locations.into_iter();
            let locations = locations.map(|location| Place::Location(location.name));
            cities.chain(locations).map(move |place| Wanted {
                placement: name.clone(),
                place,
            })
        })
        .collect()
}

/// Observes a deployment.
pub(super) fn deployment(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: KindId,
    namespace: &str,
    name: &Arc<str>,
) -> Deployed {
    let of = index.projects.get(project);
    let source = of.and_then(|of| of.sources[kind].get(namespace, name)).cloned();
    let hub: Option<Arc<str>> = index
        .owned_hub_namespace(project, namespace)
        .map(|hub| Arc::from(hub.as_str()));
    let at = hub.as_deref().unwrap_or_default();
    let binding = index.binding(kind, at, name).cloned();
    let rollup = source.as_ref().and_then(|row| row.digest.rolled_up());
    let placement = rollup.map(|rollup| rollup.placement.to_string());
    let copy = index.hub.copies[kind].get(at, name).cloned();
    let route = copy.as_ref().and_then(|copy| copy.digest.route()).or_else(|| {
        let place = &source.as_ref()?.digest.place;
        Some(index.city_route(place).ok()?.route)
    });
    let place = source.as_ref().map(|row| row.digest.place.as_str().to_owned());
    let object = ObjectRef::new(kind, &at.into(), name);
    let since = |stage| index.undelivered.since(stage, &object);
    let (instances, extra) = instances(index, project, kind, namespace, at, name);
    Deployed {
        key: source
            .as_ref()
            .map(|_| index.source_key(kind, project, namespace, name)),
        name: name.clone(),
        placement: placement.unwrap_or_default(),
        policy: route
            .as_ref()
            .and_then(|route| index.policy_of(kind, at, route))
            .map_or_else(String::new, |(name, _)| name.to_string()),
        city: place.unwrap_or_default(),
        is_hub_seen: index.specs_synced(project),
        is_complete: index.is_complete(project),
        copy,
        cells: cells(index, binding.as_ref()),
        binding: (index.binding_name(kind, name), binding),
        waits: [Stage::ProjectToHub, Stage::HubToCell, Stage::HubStatusToProject].map(since),
        unprojected: unprojected(index, kind, at, &instances),
        source,
        instances,
        extra,
        hub,
    }
}

fn cells(index: &GatewayIndex, binding: Option<&Row<Binding>>) -> Vec<CellSeen> {
    let clusters = binding.into_iter().flat_map(|row| &row.digest.clusters);
    let seen = clusters.map(|name| {
        let cluster = index.hub.clusters.get("", name);
        let ready = cluster.and_then(|row| row.digest.ready.as_ref());
        let problem = match ready {
            Some(ready) if ready.is_true => None,
            Some(ready) => Some((ready.reason.to_string(), ready.since)),
            // Without the list of Clusters their state is not known.
            None if !index.hub.clusters.synced() => None,
            None => Some(("ClusterMissing".to_owned(), 0)),
        };
        CellSeen {
            name: name.clone(),
            problem,
        }
    });
    seen.collect()
}

fn unprojected(index: &GatewayIndex, kind: KindId, hub: &str, instances: &[InstanceRow]) -> Option<Since> {
    let hub: Arc<str> = hub.into();
    let since = instances.iter().filter_map(|row| {
        let object = ObjectRef::new(kind, &hub, &row.name.as_str().into());
        index.undelivered.since(Stage::WritebackToProjection, &object)
    });
    since.min()
}

/// The Instances of a deployment, and the number of the project's that no cell has written back.
fn instances(
    index: &GatewayIndex,
    project: &ProjectKey,
    kind: KindId,
    namespace: &str,
    hub: &str,
    deployment: &Arc<str>,
) -> (Vec<InstanceRow>, usize) {
    let Some(of) = index.projects.get(project) else {
        return (Vec::new(), 0);
    };
    let source = of.sources[kind].get(namespace, deployment);
    let is_ours = |name: &str| {
        let row = of.projections[kind].get(namespace, name);
        let owner = row.and_then(|row| row.digest.owner.as_ref());
        owner.is_some_and(|(name, uid)| name == deployment && source.is_some_and(|row| row.uid == *uid))
    };
    let group = ObjectRef::new(kind, &hub.into(), deployment);
    let names: Vec<&Arc<str>> = index.write_backs_of(&group).collect();
    let rows = names.iter().filter_map(|name| {
        let row = index.hub.write_backs[kind].get(hub, name)?;
        Some(InstanceRow {
            name: name.to_string(),
            city: row.digest.city.as_ref().map_or("", CityCode::as_str).to_owned(),
            cell: row.digest.cell.as_deref().unwrap_or_default().to_owned(),
            ready: row.digest.serving.is_ready(),
            projected: is_ours(name),
            word: String::new(),
        })
    });
    let rows: Vec<InstanceRow> = rows.collect();
    let beginning = format!("{deployment}-");
    let projections = of.projections[kind].beginning_with(namespace, &beginning);
    let extra = projections
        .filter(|(name, _)| is_ours(name) && !names.contains(name))
        .count();
    (rows, extra)
}
