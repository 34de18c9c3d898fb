//! The gateway and the cells of a project, as far as their objects in it show.

use crate::project::NAMESPACE;
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
    let live = live.map_or_else(
        || {
            let metadata = json!({"name": name, "namespace": NAMESPACE});
            let object = json!({"apiVersion": fedgate_api::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec});
            plane.create(object).unwrap()
        },
        |live| (*live).clone(),
    );
    let generation = &live["metadata"]["generation"];
    if live["status"]["conditions"][0]["observedGeneration"] != *generation {
        let replicas = &placement["scaleSettings"]["minReplicas"];
        let status = json!({
            "replicas": replicas, "updatedReplicas": replicas, "currentReplicas": replicas, "readyReplicas": replicas,
            "desiredReplicas": replicas,
            "conditions": [{"type": "Available", "status": "True", "reason": "Ready", "message": "",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        });
        plane
            .merge_status(kind, NAMESPACE, &name, json!({"status": status}))
            .unwrap();
    }
    name
}
