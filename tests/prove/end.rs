//! What must hold in the end, of whatever went before: hub and projects agree with what tenants asked for.

use crate::rig::{CELLS, HUB, Rig};
use fedgate::api::keys;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

/// What is wrong, a line each. Only engaged projects are looked at.
pub(crate) fn wrong(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    let mut expected: BTreeMap<(String, String), Arc<Value>> = BTreeMap::new();
    for (project, plane) in &rig.projects {
        let hubs: BTreeMap<String, String> = plane
            .list("Namespace")
            .iter()
            .map(|ns| (text(ns, "name").to_owned(), format!("ns-{}", text(ns, "uid"))))
            .collect();
        for deployment in plane.list("WorkloadDeployment") {
            let (namespace, name) = (text(&deployment, "namespace"), text(&deployment, "name"));
            if !deployment["metadata"]["deletionTimestamp"].is_null() {
                lines.push(format!("{project} {namespace}/{name} is still being deleted"));
                continue;
            }
            let Some(hub) = hubs.get(namespace) else { continue };
            federated(rig, project, hub, &deployment, &mut lines);
            expected.insert((hub.clone(), name.to_owned()), deployment.clone());
        }
    }
    for copy in rig.hub.list("WorkloadDeployment") {
        let place = (
            text(&copy, "namespace").to_owned(),
            text(&copy, "name").to_owned(),
        );
        if !expected.contains_key(&place) && engaged(rig, &place.0) {
            lines.push(format!("I2: {HUB} {place:?} has no origin"));
        }
    }
    lines
}

/// Whether a hub namespace belongs to a project that is engaged.
fn engaged(rig: &Rig, hub: &str) -> bool {
    let namespace = rig.hub.get("Namespace", "", hub);
    let label = namespace.and_then(|ns| {
        ns["metadata"]["labels"][keys::UPSTREAM_CLUSTER]
            .as_str()
            .map(str::to_owned)
    });
    label.is_some_and(|label| rig.projects.contains_key(label.trim_start_matches("cluster-")))
}

fn federated(rig: &Rig, project: &str, hub: &str, deployment: &Value, lines: &mut Vec<String>) {
    let (namespace, name) = (text(deployment, "namespace"), text(deployment, "name"));
    let place = format!("{project} {namespace}/{name}");
    let Some(copy) = rig.hub.get("WorkloadDeployment", hub, name) else {
        return lines.push(format!("{place} has no copy"));
    };
    if copy["spec"] != deployment["spec"] {
        lines.push(format!(
            "{place}: the copy's spec is {}, should be {}",
            copy["spec"], deployment["spec"]
        ));
    }
    let suspended = |o: &Value| o["metadata"]["annotations"][keys::SUSPENDED].clone();
    if suspended(&copy) != suspended(deployment) {
        lines.push(format!("{place}: suspended is {} on the hub", suspended(&copy)));
    }
    let city = deployment["spec"]["cityCode"].as_str().unwrap_or_default();
    if CELLS.iter().all(|(_, of)| *of != city) {
        return;
    }
    let generation = &deployment["metadata"]["generation"];
    if deployment["status"]["observedGeneration"] != *generation {
        lines.push(format!(
            "{place}: status is of {}, not of {generation}",
            deployment["status"]["observedGeneration"]
        ));
    }
    projected(rig, project, hub, deployment, lines);
}

fn projected(rig: &Rig, project: &str, hub: &str, deployment: &Value, lines: &mut Vec<String>) {
    let (namespace, name) = (text(deployment, "namespace"), text(deployment, "name"));
    let of = |plane: &fedgate_simulator::Plane, within: &str| -> BTreeMap<String, Arc<Value>> {
        let ours = |i: &Arc<Value>| {
            text(i, "namespace") == within && i["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] == name
        };
        plane
            .list("Instance")
            .into_iter()
            .filter(ours)
            .map(|i| (text(&i, "name").to_owned(), i))
            .collect()
    };
    let (written, projections) = (of(&rig.hub, hub), of(&rig.projects[project], namespace));
    let wanted = deployment["spec"]["scaleSettings"]["minReplicas"]
        .as_u64()
        .unwrap_or_default();
    if written.len() as u64 != wanted {
        lines.push(format!(
            "{project} {namespace}/{name}: {} write-backs, not {wanted}",
            written.len()
        ));
    }
    if written.keys().ne(projections.keys()) {
        lines.push(format!(
            "{project} {namespace}/{name}: written back {:?}, projected {:?}",
            written.keys(),
            projections.keys()
        ));
    }
    for (name, projection) in &projections {
        let owner = &projection["metadata"]["ownerReferences"][0]["uid"];
        if *owner != text(deployment, "uid") {
            lines.push(format!("I1: {project} {namespace}/{name} is owned by {owner}"));
        }
        let Some(source) = written.get(name) else { continue };
        if source["spec"] != projection["spec"] || source["status"] != projection["status"] {
            lines.push(format!("{project} {namespace}/{name} is not what the cell wrote"));
        }
    }
}
