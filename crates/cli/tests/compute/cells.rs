//! The gateway and the cells of a project, as far as their objects in it show.

use crate::project::{NAMESPACE, instance};
use fedgate_api::keys::WORKLOAD_DEPLOYMENT_NAME;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Brings the deployments of all Workloads to where they should be.
pub(crate) fn pass(plane: &Plane) {
    let mut wanted = BTreeSet::new();
    for workload in plane.list("Workload") {
        for placement in workload["spec"]["placements"].as_array().unwrap() {
            for city in placement["cityCodes"].as_array().unwrap() {
                wanted.insert(deployment(plane, &workload, placement, city.as_str().unwrap()));
            }
        }
    }
    for deployment in plane.list("WorkloadDeployment") {
        let name = deployment["metadata"]["name"].as_str().unwrap();
        if !wanted.contains(name) {
            plane.delete("WorkloadDeployment", NAMESPACE, name).unwrap();
        }
    }
    instances(plane);
    // The status comes last, because a command that waits for it may end with it: nothing is written after that.
    for deployment in plane.list("WorkloadDeployment") {
        report(plane, &deployment);
    }
}

/// Brings the Instances of all deployments to where they should be; others that deployments made go.
fn instances(plane: &Plane) {
    let mut wanted = BTreeSet::new();
    for deployment in plane.list("WorkloadDeployment") {
        let of = deployment["metadata"]["name"].as_str().unwrap();
        let number = deployment["spec"]["scaleSettings"]["minReplicas"]
            .as_u64()
            .unwrap();
        for ordinal in 0..number {
            let name = format!("{of}-{ordinal}");
            if plane.get("Instance", NAMESPACE, &name).is_none() {
                let mut instance = instance(&name, &json!({WORKLOAD_DEPLOYMENT_NAME: of}));
                instance["metadata"]["ownerReferences"] = json!([{"apiVersion": fedgate_api::API_VERSION,
                    "kind": "WorkloadDeployment", "name": of, "uid": deployment["metadata"]["uid"], "controller": true}]);
                plane.create(instance).unwrap();
                let ready = json!({"status": {"conditions": [condition("Ready", None)]}});
                plane.merge_status("Instance", NAMESPACE, &name, ready).unwrap();
            }
            wanted.insert(name);
        }
    }
    for instance in plane.list("Instance") {
        let name = instance["metadata"]["name"].as_str().unwrap();
        let is_ours = !instance["metadata"]["labels"][WORKLOAD_DEPLOYMENT_NAME].is_null();
        if is_ours && !wanted.contains(name) {
            plane.delete("Instance", NAMESPACE, name).unwrap();
        }
    }
}

fn condition(type_: &str, generation: Option<&Value>) -> Value {
    json!({"type": type_, "status": "True", "reason": "Ready", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn deployment(plane: &Plane, workload: &Value, placement: &Value, city: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = format!(
        "{}-{}-{}",
        text(&workload["metadata"]["name"]),
        text(&placement["name"]),
        city.to_lowercase()
    );
    let spec = json!({
        "workloadRef": {"name": workload["metadata"]["name"], "uid": workload["metadata"]["uid"]},
        "placementName": placement["name"], "cityCode": city, "scaleSettings": placement["scaleSettings"],
        "template": workload["spec"]["template"],
    });
    let kind = "WorkloadDeployment";
    let mut live = plane.get(kind, NAMESPACE, &name);
    // A merge patch would keep fields that the new spec lacks.
    if live.take_if(|live| live["spec"] != spec).is_some() {
        plane.delete(kind, NAMESPACE, &name).unwrap();
    }
    if live.is_none() {
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        let object =
            json!({"apiVersion": fedgate_api::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec});
        plane.create(object).unwrap();
    }
    name
}

/// Writes the status of a deployment whose Instances are all ready.
fn report(plane: &Plane, deployment: &Value) {
    let generation = &deployment["metadata"]["generation"];
    if deployment["status"]["conditions"][0]["observedGeneration"] == *generation {
        return;
    }
    let replicas = &deployment["spec"]["scaleSettings"]["minReplicas"];
    let conditions =
        ["Available", "ReplicasReady", "Federated"].map(|type_| condition(type_, Some(generation)));
    let status = json!({
        "replicas": replicas, "updatedReplicas": replicas, "currentReplicas": replicas, "readyReplicas": replicas,
        "desiredReplicas": replicas, "conditions": conditions,
    });
    let name = deployment["metadata"]["name"].as_str().unwrap();
    plane
        .merge_status("WorkloadDeployment", NAMESPACE, name, json!({"status": status}))
        .unwrap();
}
