//! What must hold in the end, of whatever went before: hub and projects agree with what tenants asked for.

use crate::{
    operations,
    rig::{CELLS, HUB, Rig},
};
use fedgate_api::keys;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

/// What is wrong, a line each. Only engaged projects are looked at.
pub(crate) fn wrong(rig: &Rig) -> Vec<String> {
    let mut lines = left_over(rig);
    lines.extend(operations::wrong(rig));
    for (project, plane) in &rig.projects {
        let hubs = hubs(plane);
        for deployment in plane.list("WorkloadDeployment") {
            let (namespace, name) = (text(&deployment, "namespace"), text(&deployment, "name"));
            if !deployment["metadata"]["deletionTimestamp"].is_null() {
                lines.push(format!("{project} {namespace}/{name} is still being deleted"));
                continue;
            }
            let Some(hub) = hubs.get(namespace) else { continue };
            federated(rig, project, hub, &deployment, &mut lines);
        }
        for workload in plane.list("Workload") {
            workload_in_the_end(project, plane, &workload, &mut lines);
        }
    }
    lines
}

/// The hub namespace of each namespace of a project.
fn hubs(project: &Plane) -> BTreeMap<String, String> {
    let namespaces = project.list("Namespace");
    namespaces
        .iter()
        .map(|ns| (text(ns, "name").to_owned(), format!("ns-{}", text(ns, "uid"))))
        .collect()
}

/// A Workload has a deployment in each of its cities, and no other.
fn workload_in_the_end(project: &str, plane: &Plane, workload: &Value, lines: &mut Vec<String>) {
    let (namespace, name) = (text(workload, "namespace"), text(workload, "name"));
    if !workload["metadata"]["deletionTimestamp"].is_null() {
        return lines.push(format!(
            "{project} Workload {namespace}/{name} is still being deleted"
        ));
    }
    let wanted = workload["spec"]["placements"].as_array().into_iter().flatten();
    let wanted: BTreeSet<String> = wanted
        .flat_map(|placement| placement["cityCodes"].as_array().into_iter().flatten())
        .map(Value::to_string)
        .collect();
    let owned = plane.list("WorkloadDeployment").into_iter();
    let owned = owned.filter(|d| d["metadata"]["ownerReferences"][0]["uid"] == text(workload, "uid"));
    let found: BTreeSet<String> = owned.map(|d| d["spec"]["cityCode"].to_string()).collect();
    if wanted != found {
        lines.push(format!(
            "{project} Workload {namespace}/{name} is in {found:?}, not in {wanted:?}"
        ));
    }
}

/// I2: what is on the hub without an origin, of projects that are engaged: copies, and bindings whose copy is gone.
pub(crate) fn left_over(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    let mut expected: BTreeSet<(String, String)> = BTreeSet::new();
    for plane in rig.projects.values() {
        let hubs = hubs(plane);
        for deployment in plane.list("WorkloadDeployment") {
            if let Some(hub) = hubs.get(text(&deployment, "namespace")) {
                expected.insert((hub.clone(), text(&deployment, "name").to_owned()));
            }
        }
    }
    for copy in rig.hub.list("WorkloadDeployment") {
        let place = (
            text(&copy, "namespace").to_owned(),
            text(&copy, "name").to_owned(),
        );
        if !expected.contains(&place) && engaged(rig, &place.0) {
            lines.push(format!("I2: {HUB} {place:?} has no origin"));
        }
    }
    let bound: BTreeSet<String> = ["WorkloadDeployment", "ConfigMap", "Secret", "Namespace"]
        .into_iter()
        .flat_map(|kind| rig.hub.list(kind))
        .map(|object| text(&object, "uid").to_owned())
        .collect();
    for binding in rig.hub.list("ResourceBinding") {
        let owner = &binding["metadata"]["ownerReferences"][0]["uid"];
        let of = owner.as_str().unwrap_or_default();
        if !bound.contains(of) && engaged(rig, text(&binding, "namespace")) {
            lines.push(format!(
                "I2: {HUB} binding {} outlives what it binds",
                text(&binding, "name")
            ));
        }
    }
    lines
}

/// I2, of what lingers for a while: city policies without a copy, and hub Namespaces whose project namespace is gone.
pub(crate) fn unused(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    let copies = rig.hub.list("WorkloadDeployment");
    for policy in rig.hub.list("PropagationPolicy") {
        let hub = text(&policy, "namespace");
        let labels = &policy["spec"]["resourceSelectors"][0]["labelSelector"]["matchLabels"];
        let places = |labels: &Value| PLACES.map(|key| labels[key].clone());
        let used = |copy: &&Arc<Value>| {
            text(copy, "namespace") == hub && places(&copy["metadata"]["labels"]) == places(labels)
        };
        if engaged(rig, hub) && !copies.iter().any(|copy| used(&copy)) {
            lines.push(format!("I2: {HUB} has a policy of {labels} in {hub} for no copy"));
        }
    }
    let tenants: BTreeSet<String> = rig
        .projects
        .values()
        .flat_map(|p| hubs(p).into_values())
        .collect();
    for namespace in rig.hub.list("Namespace") {
        let hub = text(&namespace, "name");
        if engaged(rig, hub) && !tenants.contains(hub) {
            lines.push(format!("I2: {HUB} Namespace {hub} is of no project namespace"));
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
    let wanted = completed(rig, &deployment["spec"]);
    let city = wanted["cityCode"].as_str().unwrap_or_default();
    if !has_cluster(rig, city) {
        return unserved(rig, &place, hub, deployment, lines);
    }
    let Some(copy) = rig.hub.get("WorkloadDeployment", hub, name) else {
        return lines.push(format!("{place} has no copy"));
    };
    if copy["spec"] != wanted {
        lines.push(format!(
            "{place}: the copy's spec is {}, should be {wanted}",
            copy["spec"]
        ));
    }
    let route = match deployment["spec"]["locationRef"]["name"].as_str() {
        Some(location) => [Value::Null, json!(location)],
        None => [json!(city), Value::Null],
    };
    let labels = PLACES.map(|key| copy["metadata"]["labels"][key].clone());
    if labels != route {
        lines.push(format!(
            "{place}: the copy goes by {labels:?}, should by {route:?}"
        ));
    }
    let suspended = |o: &Value| o["metadata"]["annotations"][keys::SUSPENDED].clone();
    if suspended(&copy) != suspended(deployment) {
        lines.push(format!("{place}: suspended is {} on the hub", suspended(&copy)));
    }
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

/// The labels by which policies select copies.
const PLACES: [&str; 2] = [keys::CITY_CODE, keys::LOCATION];

/// The spec of a deployment with city and location, where the labels of the Clusters tell both. No city has several
/// locations here, and no location several cities.
fn completed(rig: &Rig, spec: &Value) -> Value {
    let mut spec = spec.clone();
    let [city, location] = [&spec["cityCode"], &spec["locationRef"]["name"]].map(Value::clone);
    for cluster in rig.hub.list("Cluster.cluster.karmada.io") {
        let [of_city, of_location] = PLACES.map(|key| &cluster["metadata"]["labels"][key]);
        if city.is_null() && location.is_string() && *of_location == location {
            spec["cityCode"] = of_city.clone();
        } else if location.is_null() && city.is_string() && *of_city == city && of_location.is_string() {
            spec["locationRef"] = json!({"name": of_location});
        }
    }
    spec
}

/// Whether a Cluster of the hub has the code.
fn has_cluster(rig: &Rig, city: &str) -> bool {
    let clusters = rig.hub.list("Cluster.cluster.karmada.io");
    clusters
        .iter()
        .any(|cluster| cluster["metadata"]["labels"][keys::CITY_CODE] == city)
}

/// A deployment whose city never had a cell says so, and the code is nowhere on the hub.
fn unserved(rig: &Rig, place: &str, hub: &str, deployment: &Value, lines: &mut Vec<String>) {
    let (name, city) = (text(deployment, "name"), &deployment["spec"]["cityCode"]);
    let conditions = deployment["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let federated = conditions.clone().find(|c| c["type"] == "Federated");
    if federated.is_none_or(|c| c["reason"] != "NoCellForCity") {
        lines.push(format!("{place} has no cell and says {federated:?}"));
    }
    let copy = rig.hub.get("WorkloadDeployment", hub, name);
    if copy.is_some_and(|copy| copy["spec"]["cityCode"] == *city) {
        lines.push(format!("{place} has no cell and is carried"));
    }
    let values = "/spec/placement/clusterAffinity/labelSelector/matchExpressions/0/values";
    for policy in rig.hub.list("ClusterPropagationPolicy") {
        let cities = policy.pointer(values).and_then(Value::as_array);
        if cities.is_some_and(|cities| cities.contains(city)) {
            lines.push(format!(
                "{place} has no cell and {} has its code",
                text(&policy, "name")
            ));
        }
    }
}

fn projected(rig: &Rig, project: &str, hub: &str, deployment: &Value, lines: &mut Vec<String>) {
    let (namespace, name) = (text(deployment, "namespace"), text(deployment, "name"));
    let of = |plane: &Plane, within: &str| -> BTreeMap<String, Arc<Value>> {
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
