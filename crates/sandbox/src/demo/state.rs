//! What is waited for, asked of what the watches have seen.

use super::{
    journal::Seen,
    kinds::{DEPLOYMENT, INSTANCE, POD, WORKLOAD},
    tenant::PROJECT,
    words::{is_true, reason},
};
use fedgate_api::keys;
use serde_json::Value;
use std::collections::BTreeSet;

/// A deployment with the number of its Instances.
pub(super) type Wanted<'a> = (&'a str, u64);

/// The names that the Instances of deployments have.
pub(super) fn instances(wanted: &[Wanted<'_>]) -> BTreeSet<String> {
    wanted
        .iter()
        .flat_map(|(deployment, count)| (0..*count).map(move |ordinal| format!("{deployment}-{ordinal}")))
        .collect()
}

/// Whether the Workload has exactly these deployments' Instances in the project, all of them ready with an address, and
/// counts them.
pub(super) fn runs(seen: &Seen, workload: &str, wanted: &[Wanted<'_>]) -> bool {
    let own: Vec<&Value> = seen
        .of(PROJECT, &INSTANCE)
        .filter(|instance| instance["metadata"]["labels"][keys::WORKLOAD_NAME] == workload)
        .collect();
    let shown: BTreeSet<String> = own.iter().copied().map(name).collect();
    let sum: u64 = wanted.iter().map(|(_, count)| count).sum();
    let counts = seen.get(PROJECT, &WORKLOAD, workload).is_some_and(|workload| {
        let status = &workload["status"];
        ["readyReplicas", "replicas", "desiredReplicas"]
            .iter()
            .all(|count| status[count].as_u64() == Some(sum))
    });
    counts
        && shown == instances(wanted)
        && own.iter().all(|instance| {
            let address = &instance["status"]["networkInterfaces"][0]["assignments"]["networkIP"];
            is_true(instance, "Ready") && address.is_string()
        })
}

/// Whether every Instance in the project runs this image.
pub(super) fn all_have(seen: &Seen, image: &str) -> bool {
    let container = "/spec/runtime/sandbox/containers/0/image";
    seen.of(PROJECT, &INSTANCE)
        .all(|instance| instance.pointer(container).is_some_and(|value| value == image))
}

/// Whether the project says this of the Instance's readiness.
pub(super) fn instance_says(seen: &Seen, instance: &str, why: &str) -> bool {
    seen.get(PROJECT, &INSTANCE, instance)
        .is_some_and(|instance| reason(instance, "Ready") == Some(why))
}

/// Whether the project says this of the deployment's availability.
pub(super) fn deployment_says(seen: &Seen, deployment: &str, why: &str) -> bool {
    seen.get(PROJECT, &DEPLOYMENT, deployment)
        .is_some_and(|deployment| reason(deployment, "Available") == Some(why))
}

/// The identities of all Instances at their cells: a new Instance of the same name has another.
pub(super) fn lives(seen: &Seen, cells: &[&str]) -> BTreeSet<String> {
    let all = cells.iter().flat_map(|cell| seen.of(cell, &INSTANCE));
    all.filter_map(|instance| instance["metadata"]["uid"].as_str().map(str::to_owned))
        .collect()
}

/// How many Pods the cell has for the deployment.
pub(super) fn pods_of(seen: &Seen, cell: &str, deployment: &str) -> usize {
    seen.of(cell, &POD)
        .filter(|pod| pod["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] == deployment)
        .count()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
