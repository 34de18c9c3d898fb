//! The way of an object: what is observed of it in the index, and the hops that follow from that.

mod hops;
mod observe;

#[cfg(test)]
mod tests;

use super::{Operations, projects::unknown_project};
use crate::index::{GatewayIndex, Project, TableId};
use fedgate_api::{Place, names::ProjectKey};
use fedgate_engine::runtime::failures::LastFailure;
use fedgate_kinds::KindId;
use fedgate_operations::views::journal;
use fedgate_operations::{
    Branch, FirstBroken, HopKind, HopState, JournalRow, NoAnswer, Trace, TracedObject, Verdict,
    query::TraceQuery,
};
use observe::Deployed;
use std::sync::Arc;

/// Maximum number of placements and cities of a Workload in an answer.
const BRANCHES: usize = 200;
/// Maximum number of Instances in an answer.
const INSTANCES: usize = 200;
/// Maximum number of writes in an answer.
const WRITES: usize = 20;

pub(super) fn trace(of: &Operations, query: &TraceQuery) -> Result<Trace, NoAnswer> {
    let project = ProjectKey::parse(&query.project).map_err(|_| unknown_project(&query.project))?;
    let index = of.index();
    let observed = find(&index, &project, query)?;
    drop(index);
    let (now, failures) = (of.gateway.shared.now(), of.gateway.shared.workers.failures());
    let outage = of.hub_outage();
    let mut branches = Vec::new();
    for deployed in &observed {
        let failure: Option<LastFailure> = deployed.key.as_ref().and_then(|key| failures.of(key));
        branches.push(hops::branch(deployed, failure.as_ref(), outage.as_deref(), now));
    }
    let verdict = verdict(&branches);
    let object = TracedObject {
        project: query.project.clone(),
        namespace: query.namespace.clone(),
        kind: query.kind.clone(),
        name: query.name.clone(),
    };
    let journal = writes(of, &object, &observed);
    let mut instances: Vec<_> = observed.into_iter().flat_map(|branch| branch.instances).collect();
    instances.truncate(INSTANCES);
    Ok(Trace {
        first_broken: first_broken(&object, &branches),
        object,
        verdict,
        branches,
        instances,
        journal,
    })
}

fn find(index: &GatewayIndex, key: &ProjectKey, query: &TraceQuery) -> Result<Vec<Deployed>, NoAnswer> {
    let project = index
        .projects
        .get(key)
        .ok_or_else(|| unknown_project(&query.project))?;
    if project.namespaces.synced() && project.namespaces.get("", &query.namespace).is_none() {
        return Err(NoAnswer::Unknown {
            message: format!(
                "project {:?} has no namespace {:?}",
                query.project, query.namespace
            ),
            next: "see its namespaces in the project: kubectl get namespaces".to_owned(),
        });
    }
    let branches = if query.kind == "workloads" {
        of_workload(index, key, project, query)
    } else if let Some(kind) = kind_of(index, &query.kind, TableId::Federated) {
        let source = project.sources[kind].get(&query.namespace, &query.name);
        let name = Arc::from(query.name.as_str());
        source.map(|_| vec![observe::deployment(index, key, kind, &query.namespace, &name)])
    } else if let Some(kind) = kind_of(index, &query.kind, TableId::WrittenBack) {
        of_instance(index, key, kind, query)
    } else {
        return Err(NoAnswer::Unknown {
            message: format!("no federated kind has the plural {:?}", query.kind),
            next: "use workloads, instances, or the plural of a federated kind".to_owned(),
        });
    };
    branches.ok_or_else(|| NoAnswer::Unknown {
        message: format!(
            "namespace {:?} of project {:?} has no {} {:?}",
            query.namespace, query.project, query.kind, query.name
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
fn of_workload(
    index: &GatewayIndex,
    key: &ProjectKey,
    project: &Project,
    query: &TraceQuery,
) -> Option<Vec<Deployed>> {
    let row = project.workloads.get(&query.namespace, &query.name)?;
    let kind = index.workload_kind()?;
    let deployments: Vec<Arc<str>> = project
        .secondary
        .controlled(&query.namespace, &row.uid)
        .cloned()
        .collect();
    let found = |wanted: &observe::Wanted| {
        let is_wanted = |name: &&Arc<str>| {
            let source = project.sources[kind].get(&query.namespace, name);
            source.is_some_and(|source| wanted.is(&row.uid, source))
        };
        deployments.iter().find(is_wanted).cloned()
    };
    if row.digest.text().is_none() {
        // Its placements are not known; one branch says that nothing exists.
        let nothing = deployments.is_empty().then(|| Arc::from(""));
        let names = deployments.iter().cloned().chain(nothing).take(BRANCHES);
        let branch = |name| observe::deployment(index, key, kind, &query.namespace, &name);
        return Some(names.map(branch).collect());
    }
    let branches = observe::wanted(row).into_iter().take(BRANCHES).map(|wanted| {
        let name = found(&wanted).unwrap_or_else(|| Arc::from(""));
        let mut branch = observe::deployment(index, key, kind, &query.namespace, &name);
        branch.placement = wanted.placement;
        let (Place::City(place) | Place::Location(place) | Place::Both { location: place, .. }) =
            wanted.place;
        branch.city = place;
        branch
    });
    Some(branches.collect())
}

/// The way of an Instance: that of its deployment, with its own row alone.
fn of_instance(
    index: &GatewayIndex,
    key: &ProjectKey,
    kind: KindId,
    query: &TraceQuery,
) -> Option<Vec<Deployed>> {
    let hub = index.owned_hub_namespace(key, &query.namespace);
    let write_back = hub.and_then(|hub| index.hub.write_backs[kind].get(hub.as_str(), &query.name));
    let projection = index.projects.get(key)?.projections[kind].get(&query.namespace, &query.name);
    let deployment = write_back
        .and_then(|row| row.digest.deployment.clone())
        .or_else(|| projection?.digest.owner.as_ref().map(|(name, _)| name.clone()))?;
    let mut branch = observe::deployment(index, key, kind, &query.namespace, &deployment);
    branch.instances.retain(|row| row.name == query.name);
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
fn writes(of: &Operations, object: &TracedObject, observed: &[Deployed]) -> Vec<JournalRow> {
    let names: Vec<&str> = observed
        .iter()
        .flat_map(|branch| {
            let instances = branch.instances.iter().map(|row| row.name.as_str());
            std::iter::once(&*branch.name).chain(instances)
        })
        .chain([object.name.as_str()])
        .collect();
    let hubs: Vec<&str> = observed
        .iter()
        .filter_map(|branch| branch.hub.as_deref())
        .collect();
    let mut entries = of.gateway.shared.executor.journal().entries();
    entries.retain(|entry| {
        let key = &entry.object;
        let here = match &key.plane {
            fedgate_engine::key::Plane::Project(project) => {
                project.as_str() == object.project && *key.namespace == *object.namespace
            }
            _ => hubs.contains(&&*key.namespace),
        };
        here && names.contains(&&*key.name)
    });
    let mut query = fedgate_operations::query::Query::default();
    query.page.limit = WRITES;
    let owner = ProjectKey::parse(&object.project)
        .ok()
        .map(|key| (key, Arc::from(object.namespace.as_str())));
    journal::rows(&entries, &query, |_| owner.clone()).items
}
