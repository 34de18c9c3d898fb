//! The cells' part: each copy that is delivered gets a status, and a write-back for each Instance that it asks for.

use crate::{
    objects::{COMPUTE, WriteBack, instance_status, report},
    rig::{CELLS, SECOND},
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

/// The cells that have a copy: those to which Karmada has delivered it, after those that it leaves.
fn delivered(hub: &Plane, copy: &Value) -> Vec<String> {
    let (namespace, name) = place(copy);
    let binding = hub.get(
        "ResourceBinding",
        namespace,
        &format!("{name}-workloaddeployment"),
    );
    let Some(binding) = binding else { return Vec::new() };
    let names = |list: &str, field: &str| {
        let items = binding["spec"][list].as_array().into_iter().flatten();
        let names = items.filter_map(|item| Some(item[field].as_str()?.to_owned()));
        names.collect::<Vec<String>>()
    };
    let mut all = names("gracefulEvictionTasks", "fromCluster");
    all.extend(names("clusters", "name"));
    all
}

/// The cell of a city that writes the Instances of a copy: the one that the copy names, or the first that has it.
fn writer(hub: &Plane, copy: &Value, city: &str) -> Option<String> {
    let of_city = |cell: &String| {
        let is_it = |(name, of): &(&str, &str)| *of == city && name == cell;
        CELLS.iter().any(is_it) || city == "DFW" && cell == SECOND
    };
    let mut having = delivered(hub, copy);
    having.retain(of_city);
    match copy["metadata"]["annotations"][keys::CELL].as_str() {
        Some(named) => having.into_iter().find(|cell| cell == named),
        None => having.into_iter().next(),
    }
}

fn place(object: &Value) -> (&str, &str) {
    let metadata = &object["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

fn serve(hub: &Plane, copy: &Value, part: Part) {
    let (namespace, name) = place(copy);
    let city = copy["spec"]["cityCode"].as_str().unwrap_or_default();
    let Some(cell) = writer(hub, copy, city) else {
        return;
    };
    let cell = &*cell;
    if matches!(part, Part::Without(lost) if lost == cell) {
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
/// lost gets it again. Those of another cell of the deployment are taken over in place.
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
        let is_by = |w: &WriteBack<'_>| instance["metadata"]["labels"][keys::CELL] == w.cell;
        let is_here = |w: &&WriteBack<'_>| {
            let labels = &instance["metadata"]["labels"];
            (is_by(w) || labels[keys::INSTANCE_CITY_CODE] == w.city)
                && instance["metadata"]["ownerReferences"][0]["uid"] == w.copy
        };
        if let Some(wanted) = wanted.filter(is_here).filter(|_| names.contains(name)) {
            if !is_by(wanted) {
                let labels = json!({"metadata": {"labels": {keys::CELL: wanted.cell}}});
                hub.merge("Instance", namespace, name, labels).unwrap();
            }
        } else {
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
