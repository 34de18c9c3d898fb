//! The cells' part: each copy that is delivered gets a status, and a write-back for each Instance that it asks for.

use crate::{
    objects::{COMPUTE, WriteBack, instance_status, report},
    rig::CELLS,
};
use fedgate_api::keys;
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long a cell takes for anything.
const DELAY: Duration = Duration::from_millis(100);

/// How far the cells do their part.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// A cell is lost and does nothing.
    Without(&'static str),
    /// Of each deployment they have only written back the Instance whose name ends so.
    Only(&'static str),
}

/// Acts on each change of the hub, until aborted.
pub(crate) async fn act(hub: Plane, part: Part) {
    let mut changed = hub.changed();
    loop {
        tokio::time::sleep(DELAY).await;
        for copy in hub.list("WorkloadDeployment") {
            if copy["metadata"]["deletionTimestamp"].is_null() {
                serve(&hub, &copy, part);
            }
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Whether Karmada has delivered a copy to a cell.
fn delivered(hub: &Plane, copy: &Value, cell: &str) -> bool {
    let (namespace, name) = place(copy);
    let binding = hub.get(
        "ResourceBinding",
        namespace,
        &format!("{name}-workloaddeployment"),
    );
    let clusters = binding.and_then(|binding| binding["spec"]["clusters"].as_array().cloned());
    clusters.is_some_and(|clusters| clusters.iter().any(|cluster| cluster["name"] == cell))
}

fn place(object: &Value) -> (&str, &str) {
    let metadata = &object["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

fn serve(hub: &Plane, copy: &Value, part: Part) {
    let (namespace, name) = place(copy);
    let city = copy["spec"]["cityCode"].as_str().unwrap_or_default();
    let Some((cell, city)) = CELLS.iter().copied().find(|(_, of)| *of == city) else {
        return;
    };
    let lost = matches!(part, Part::Without(lost) if lost == cell);
    if lost || !delivered(hub, copy, cell) {
        return;
    }
    let wanted = copy["spec"]["scaleSettings"]["minReplicas"].as_u64().unwrap_or(1);
    let generation = copy["metadata"]["annotations"][keys::SOURCE_GENERATION]
        .as_str()
        .and_then(|text| text.parse().ok());
    let status = report(wanted, generation);
    if copy["status"] != status {
        hub.merge_status("WorkloadDeployment", namespace, name, json!({"status": status}))
            .unwrap();
    }
    let uid = copy["metadata"]["uid"].as_str().unwrap_or_default();
    let Some(tenant) = hub.get("Namespace", "", namespace) else {
        return;
    };
    let label = |key: &str| {
        tenant["metadata"]["labels"][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (project, source) = (label(keys::UPSTREAM_CLUSTER), label(keys::UPSTREAM_NAMESPACE));
    let expected: Vec<WriteBack<'_>> = (0..wanted)
        .map(|ordinal| WriteBack {
            project: project.trim_start_matches("cluster-"),
            namespace: &source,
            hub: namespace,
            deployment: name,
            copy: uid,
            city,
            cell,
            ordinal,
        })
        .filter(|w| !matches!(part, Part::Only(end) if !w.name().ends_with(end)))
        .collect();
    settle(hub, namespace, name, &expected);
}

/// Makes the write-backs of a deployment what they should be, and never touches those that are; one whose status was
/// lost gets it again.
fn settle(hub: &Plane, namespace: &str, deployment: &str, expected: &[WriteBack<'_>]) {
    let names: BTreeSet<String> = expected.iter().map(WriteBack::name).collect();
    let held: Vec<Arc<Value>> = hub
        .list("Instance")
        .into_iter()
        .filter(|i| {
            place(i).0 == namespace && i["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME] == deployment
        })
        .collect();
    for instance in &held {
        let name = place(instance).1;
        let wanted = expected.iter().find(|w| w.name() == name);
        let stays = names.contains(name)
            && wanted.is_some_and(|w| {
                instance["metadata"]["labels"][keys::CELL] == w.cell
                    && instance["metadata"]["ownerReferences"][0]["uid"] == w.copy
            });
        if !stays {
            // Gone already where the garbage collector was faster.
            let _ = hub.delete("Instance", namespace, name);
        }
    }
    for write_back in expected {
        let name = write_back.name();
        let there = hub.get("Instance", namespace, &name);
        let unsaid = match &there {
            Some(instance) => instance["status"].is_null(),
            None => hub.create(write_back.object()).is_ok(),
        };
        if unsaid {
            let status = json!({"apiVersion": COMPUTE, "status": instance_status(true)});
            hub.merge_status("Instance", namespace, &name, status).unwrap();
        }
    }
}
