//! The way of an object: what is observed of it in the index, and the hops that follow from that.

mod hops;
mod observe;

#[cfg(test)]
mod tests;

use crate::{Operations, projects::unknown_project};
use fedgate_api::{
    Workload,
    names::{CityCode, LocationName, ProjectKey},
};
use fedgate_engine::{executor::journal::Entry, key::Plane};
use fedgate_gateway::index::{GatewayIndex, Project, TableId};
use fedgate_kinds::KindId;
use fedgate_operations::views::journal;
use fedgate_operations::{
    Branch, FirstBroken, HopKind, HopState, JournalRow, NoAnswer, Trace, TracedObject, Verdict,
    query::{PageQuery, Query},
};
use observe::Deployed;
use std::{collections::BTreeSet, sync::Arc};

/// Maximum number of placements and cities of a Workload in an answer.
const BRANCHES: usize = 200;
/// Maximum number of Instances in an answer.
const INSTANCES: usize = 200;
/// Maximum number of writes in an answer.
const WRITES: usize = 20;

pub(super) fn trace(of: &Operations, object: &TracedObject) -> Result<Trace, NoAnswer> {
    let project = ProjectKey::parse(&object.project).map_err(|_| unknown_project(&object.project))?;
    let shared = &of.gateway.shared;
    let (now, failures, outage) = (shared.now(), shared.workers.failures(), of.hub_outage());
    let entries = shared.executor.journal().entries();
    let index = of.index();
    let observed = find(&index, &project, object)?;
    let branch = |of: &Deployed<'_>| {
        let key = index.source_key(of.object.kind, &project, &object.namespace, &of.object.name);
        let failure = of.source.and_then(|_| failures.of(&key));
        hops::branch(of, failure.as_ref(), outage.as_deref(), now)
    };
    let branches: Vec<Branch> = observed.iter().map(branch).collect();
    let journal = writes(entries, &project, object, &observed);
    let instances = observed.into_iter().flat_map(|branch| branch.instances);
    Ok(Trace {
        verdict: verdict(&branches),
        first_broken: first_broken(object, &branches),
        object: object.clone(),
        branches,
        instances: instances.take(INSTANCES).collect(),
        journal,
    })
}

fn find<'a>(
    index: &'a GatewayIndex,
    key: &'a ProjectKey,
    object: &TracedObject,
) -> Result<Vec<Deployed<'a>>, NoAnswer> {
    let project = index
        .projects
        .get(key)
        .ok_or_else(|| unknown_project(&object.project))?;
    if project.namespaces.synced() && project.namespaces.get("", &object.namespace).is_none() {
        return Err(NoAnswer::Unknown {
            message: format!(
                "project {:?} has no namespace {:?}",
                object.project, object.namespace
            ),
            next: "see its namespaces in the project: kubectl get namespaces".to_owned(),
        });
    }
    let branches = if object.kind == "workloads" {
        of_workload(index, key, project, object)
    } else if let Some(kind) = kind_of(index, &object.kind, TableId::Federated) {
        let source = project.sources[kind].get(&object.namespace, &object.name);
        let name = Arc::from(object.name.as_str());
        source.map(|_| vec![observe::deployment(index, key, kind, &object.namespace, &name)])
    } else if let Some(kind) = kind_of(index, &object.kind, TableId::WrittenBack) {
        of_instance(index, key, kind, object)
    } else {
        return Err(NoAnswer::Unknown {
            message: format!("no federated kind has the plural {:?}", object.kind),
            next: "use workloads, instances, or the plural of a federated kind".to_owned(),
        });
    };
    branches.ok_or_else(|| NoAnswer::Unknown {
        message: format!(
            "namespace {:?} of project {:?} has no {} {:?}",
            object.namespace, object.project, object.kind, object.name
        ),
        next: "list them in the project: kubectl get workloads,workloaddeployments,instances".to_owned(),
    })
}

fn kind_of(index: &GatewayIndex, plural: &str, table: impl Fn(KindId) -> TableId) -> Option<KindId> {
    index.kinds.ids().find(|kind| {
        let table = table(*kind);
        let served = !matches!(table, TableId::WrittenBack(kind) if index.kinds[kind].write_back.is_none());
        served && index.plural(table) == plural
    })
}

/// A branch for each placement and place that a Workload names, also where no deployment exists; of a Workload whose text
/// the index does not keep, a branch for each deployment that exists.
fn of_workload<'a>(
    index: &'a GatewayIndex,
    key: &'a ProjectKey,
    project: &Project,
    object: &TracedObject,
) -> Option<Vec<Deployed<'a>>> {
    let row = project.workloads.get(&object.namespace, &object.name)?;
    let kind = index.workload_kind()?;
    let branch = |name: &Arc<str>| observe::deployment(index, key, kind, &object.namespace, name);
    let deployments: Vec<&Arc<str>> = project
        .secondary
        .controlled(&object.namespace, &row.uid)
        .collect();
    let nothing: Arc<str> = "".into();
    let Some(text) = row.digest.text() else {
        // Its placements are not known; one branch says that nothing exists.
        let none = deployments.is_empty().then_some(&nothing);
        let names = deployments.into_iter().chain(none).take(BRANCHES);
        return Some(names.map(branch).collect());
    };
    let placements =
        serde_json::from_str::<Workload>(text).map_or_else(|_| Vec::new(), |of| of.spec.placements);
    let wanted = placements.iter().flat_map(|placement| {
        let cities = placement.city_codes.iter().map(|city| (false, city));
        let locations = placement.locations.iter().map(|at| (true, &at.name));
        cities.chain(locations).map(move |at| (&placement.name, at))
    });
    let branches = wanted.take(BRANCHES).map(|(placement, (is_location, at))| {
        let is_wanted = |name: &&&Arc<str>| {
            let source = project.sources[kind].get(&object.namespace, name);
            source.is_some_and(|source| {
                let place = &source.digest.place;
                let place = if is_location {
                    place.location().map(LocationName::as_str)
                } else {
                    place.city().map(CityCode::as_str)
                };
                let rollup = source.digest.rolled_up();
                place == Some(at.as_str()) && rollup.is_some_and(|rollup| *rollup.placement == **placement)
            })
        };
        Deployed {
            placement: placement.clone(),
            city: at.clone(),
            ..branch(deployments.iter().find(is_wanted).copied().unwrap_or(&nothing))
        }
    });
    Some(branches.collect())
}

/// The way of an Instance: that of its deployment, with its own row alone.
fn of_instance<'a>(
    index: &'a GatewayIndex,
    key: &'a ProjectKey,
    kind: KindId,
    object: &TracedObject,
) -> Option<Vec<Deployed<'a>>> {
    let hub = index.owned_hub_namespace(key, &object.namespace);
    let write_back = hub.and_then(|hub| index.hub.write_backs[kind].get(hub.as_str(), &object.name));
    let projection = index.projects.get(key)?.projections[kind].get(&object.namespace, &object.name);
    let deployment = write_back
        .and_then(|row| row.digest.deployment.clone())
        .or_else(|| projection?.digest.owner.as_ref().map(|(name, _)| name.clone()))?;
    let mut branch = observe::deployment(index, key, kind, &object.namespace, &deployment);
    branch.instances.retain(|row| row.name == object.name);
    Some(vec![branch])
}

fn verdict(branches: &[Branch]) -> Verdict {
    let hops = || branches.iter().flat_map(|branch| &branch.hops);
    if hops().any(|hop| hop.state == HopState::Broken) {
        Verdict::Broken
    } else if hops().any(|hop| matches!(hop.state, HopState::Waiting | HopState::Unseen)) {
        Verdict::Moving
    } else {
        Verdict::Whole
    }
}

fn first_broken(object: &TracedObject, branches: &[Branch]) -> Option<FirstBroken> {
    let broken = branches.iter().flat_map(|branch| {
        let hops = branch.hops.iter().filter(|hop| hop.state == HopState::Broken);
        hops.map(move |hop| (branch, hop))
    });
    let (branch, hop) = broken.min_by_key(|(_, hop)| hop.hop)?;
    let parts = [hop.object.as_str(), hop.word.as_str(), hop.detail.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    Some(FirstBroken {
        placement: branch.placement.clone(),
        city: branch.city.clone(),
        hop: hop.hop,
        detail: parts.join(": "),
        next: next_step(object, hop.hop, &hop.object),
    })
}

fn next_step(object: &TracedObject, hop: HopKind, at: &str) -> String {
    match hop {
        HopKind::Project => {
            let TracedObject { namespace, name, .. } = object;
            format!(
                "see the Workload's conditions in the project: kubectl -n {namespace} describe workload {name}"
            )
        }
        HopKind::Write | HopKind::Hub => format!("fedgate stuck --project {}", object.project),
        HopKind::Binding => {
            "kubectl describe resourcebinding on the hub; see the log of karmada-controller-manager"
                .to_owned()
        }
        HopKind::Cell => format!("check the cell {at}: fedgate stuck --cell {at}"),
        HopKind::Instances => {
            let TracedObject {
                project, namespace, ..
            } = object;
            format!(
                "the Instances' conditions say why: kubectl -n {namespace} describe instances in project {project}"
            )
        }
        HopKind::Projection => format!("fedgate journal --project {}", object.project),
    }
}

/// The last writes of the objects that were observed.
fn writes(
    mut entries: Vec<Arc<Entry>>,
    project: &ProjectKey,
    object: &TracedObject,
    observed: &[Deployed<'_>],
) -> Vec<JournalRow> {
    let instances = observed.iter().flat_map(|branch| &branch.instances);
    let names: BTreeSet<&str> = observed
        .iter()
        .map(|branch| &*branch.object.name)
        .chain(instances.map(|row| row.name.as_str()))
        .chain([object.name.as_str()])
        .collect();
    let hubs = observed.iter().map(|branch| &*branch.object.hub);
    let hubs: BTreeSet<&str> = hubs.filter(|hub| !hub.is_empty()).collect();
    entries.retain(|entry| {
        let key = &entry.object;
        let is_here = match &key.plane {
            Plane::Project(of) => of == project && *key.namespace == *object.namespace,
            _ => hubs.contains(&*key.namespace),
        };
        is_here && names.contains(&*key.name)
    });
    let last = Query {
        page: PageQuery {
            limit: WRITES,
            ..PageQuery::default()
        },
        ..Query::default()
    };
    let owner = (project.clone(), Arc::from(&*object.namespace));
    journal::rows(&entries, &last, |_| Some(owner.clone())).items
}
