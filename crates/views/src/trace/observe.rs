//! The part of the index that the way of a deployment follows from.

use fedgate_api::names::{CityCode, ProjectKey};
use fedgate_engine::store::table::Row;
use fedgate_gateway::index::{
    GatewayIndex, ObjectRef,
    derived::undelivered::Since,
    rows::{Binding, HubCopy, Source},
};
use fedgate_kinds::KindId;
use fedgate_operations::{InstanceRow, Stage};
use std::sync::Arc;

/// A deployment on its way, as the index has it. Without a name it is wanted, and does not exist.
pub(super) struct Deployed<'a> {
    /// The index.
    pub(super) index: &'a GatewayIndex,
    /// Project of the deployment.
    pub(super) project: &'a ProjectKey,
    /// Kind, hub namespace and name of the deployment. The hub namespace is empty while it belongs to another project
    /// namespace, or to none.
    pub(super) object: ObjectRef,
    /// Placement of the deployment.
    pub(super) placement: String,
    /// City of the deployment, or the location that its Workload names.
    pub(super) city: String,
    /// The project's object.
    pub(super) source: Option<&'a Row<Source>>,
    /// The hub's copy.
    pub(super) copy: Option<&'a Row<HubCopy>>,
    /// Karmada's binding.
    pub(super) binding: Option<&'a Row<Binding>>,
    /// Instances of the deployment.
    pub(super) instances: Vec<InstanceRow>,
    /// Number of the project's Instances that the deployment owns although no cell has written them back.
    pub(super) extra: usize,
}

/// Observes a deployment.
pub(super) fn deployment<'a>(
    index: &'a GatewayIndex,
    project: &'a ProjectKey,
    kind: KindId,
    namespace: &str,
    name: &Arc<str>,
) -> Deployed<'a> {
    let of = index.projects.get(project);
    let source = of.and_then(|of| of.sources[kind].get(namespace, name));
    let hub = index.owned_hub_namespace(project, namespace);
    let hub = Arc::from(hub.as_ref().map_or("", |hub| hub.as_str()));
    let rollup = source.and_then(|row| row.digest.rolled_up());
    let object = ObjectRef::new(kind, &hub, name);
    let (instances, extra) = instances(index, project, namespace, &object);
    Deployed {
        index,
        project,
        placement: rollup.map_or_else(String::new, |rollup| rollup.placement.to_string()),
        city: source.map_or_else(String::new, |row| row.digest.place.as_str().to_owned()),
        source,
        copy: index.hub.copies[kind].get(&hub, name),
        binding: index.binding(kind, &hub, name),
        instances,
        extra,
        object,
    }
}

impl<'a> Deployed<'a> {
    /// Since when the deployment waits at a stage.
    pub(super) fn waits(&self, stage: Stage) -> Option<Since> {
        self.index.undelivered.since(stage, &self.object)
    }

    /// Since when the Instance of this name waits to be projected.
    pub(super) fn instance_waits(&self, name: &str) -> Option<Since> {
        let ObjectRef { kind, hub, .. } = &self.object;
        let instance = ObjectRef::new(*kind, hub, &name.into());
        self.index
            .undelivered
            .since(Stage::WritebackToProjection, &instance)
    }

    /// Name of the policy that should claim the binding, if there is one.
    pub(super) fn policy(&self) -> Option<&Arc<str>> {
        let of_place = || Some(self.index.city_route(&self.source?.digest.place).ok()?.route);
        let route = self.copy.and_then(|copy| copy.digest.route()).or_else(of_place)?;
        let ObjectRef { kind, hub, .. } = &self.object;
        self.index.policy_of(*kind, hub, &route).map(|(name, _)| name)
    }

    /// The Clusters of the binding.
    pub(super) fn clusters(&self) -> &'a [Arc<str>] {
        self.binding.map_or(&[], |row| &row.digest.clusters)
    }

    /// The first Cluster of the binding whose `Ready` is not True, with its reason and `lastTransitionTime`.
    pub(super) fn unready(&self) -> Option<(&'a str, &'a str, i64)> {
        let all = &self.index.hub.clusters;
        self.clusters().iter().find_map(|name| {
            match all.get("", name).and_then(|row| row.digest.ready.as_ref()) {
                Some(ready) if ready.is_true => None,
                Some(ready) => Some((&**name, &*ready.reason, ready.since)),
                // Without the list of Clusters their state is not known.
                None => all.synced().then_some((&**name, "ClusterMissing", 0)),
            }
        })
    }
}

/// The Instances of a deployment, and the number of the project's that no cell has written back.
fn instances(
    index: &GatewayIndex,
    project: &ProjectKey,
    namespace: &str,
    deployment: &ObjectRef,
) -> (Vec<InstanceRow>, usize) {
    let ObjectRef { kind, hub, name: of } = deployment;
    let Some(project) = index.projects.get(project) else {
        return (Vec::new(), 0);
    };
    let source = project.sources[*kind].get(namespace, of);
    let is_ours = |name: &str| {
        let row = project.projections[*kind].get(namespace, name);
        let owner = row.and_then(|row| row.digest.owner.as_ref());
        owner.is_some_and(|(name, uid)| name == of && source.is_some_and(|row| row.uid == *uid))
    };
    let names: Vec<&Arc<str>> = index.write_backs_of(deployment).collect();
    let rows = names.iter().filter_map(|name| {
        let row = index.hub.write_backs[*kind].get(hub, name)?;
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
    let beginning = format!("{of}-");
    let all = project.projections[*kind].beginning_with(namespace, &beginning);
    let extra = all.filter(|(name, _)| is_ours(name) && !names.contains(name));
    (rows, extra.count())
}
