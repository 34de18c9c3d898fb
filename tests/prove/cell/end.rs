//! What must hold once a cell has come to rest, of whatever went before.

use super::{
    planes::{NAME, NS},
    rig::Rig,
};
use crate::state::{self, State};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// The kinds that are compared.
const KINDS: [&str; 13] = [
    "Namespace",
    "ConfigMap",
    "WorkloadDeployment",
    "Instance",
    "Pod",
    "Service",
    "ResourceClaim",
    "ServingLocation",
    "NetworkBinding",
    "NetworkContext",
    "SubnetClaim",
    "Subnet",
    "Secret",
];

/// Everything there is.
pub(super) fn state(rig: &Rig) -> State {
    let planes = [("hub", &rig.hub), ("cell", &rig.cell), ("project", &rig.project)];
    let planes = planes.map(|(name, plane)| (name.to_owned(), plane.clone()));
    let mut state = state::of(&planes, &KINDS);
    for (place, object) in &mut state {
        // Made while a gate was there or removed with another one: each is one generation.
        if place.starts_with("cell ") || place.starts_with("hub Instance") {
            forget(object, "observedGeneration");
        }
        forget(object, keys::GATE_START);
        // Written before the first Pod, and a scale-down may come before it or after.
        forget(object, keys::POD_SECURITY);
        sort_conditions(object);
    }
    state
}

/// Conditions stand in the order in which they were first said.
fn sort_conditions(object: &mut Value) {
    if let Some(conditions) = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    {
        conditions.sort_by_key(|c| c["type"].to_string());
    }
}

fn forget(value: &mut Value, key: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove(key);
            fields.values_mut().for_each(|field| forget(field, key));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forget(item, key)),
        _ => {}
    }
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == type_)
}

/// What is wrong with a cell at rest, a line each: what it has elsewhere is there for its own Instances and says the same.
pub(super) fn settled(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(why) = rig.unwell() {
        lines.push(format!("the cell is not well: {why}"));
    }
    let instances = rig.cell.list("Instance");
    let uids: BTreeSet<&str> = instances.iter().map(|i| text(i, "uid")).collect();
    for instance in &instances {
        instance_at_rest(rig, instance, &mut lines);
    }
    let elsewhere = rig.hub.list("Instance").into_iter();
    for left in elsewhere.chain(rig.project.list("ResourceClaim")) {
        let of = left["metadata"]["annotations"][keys::INSTANCE_UID].as_str();
        if of.is_none_or(|uid| !uids.contains(uid)) {
            lines.push(format!(
                "{} {} is of no Instance",
                left["kind"],
                text(&left, "name")
            ));
        }
    }
    for kind in ["Pod", "Service"] {
        for left in rig.cell.list(kind) {
            let of = left["metadata"]["labels"][keys::INSTANCE_UID].as_str();
            if of.is_none_or(|uid| !uids.contains(uid)) || !left["metadata"]["deletionTimestamp"].is_null() {
                lines.push(format!("{kind} {} is left", text(&left, "name")));
            }
        }
    }
    let records = rig.cell.list("ConfigMap").into_iter();
    let records = records.filter(|map| text(map, "name").starts_with("fedgate-releases-"));
    lines.extend(records.map(|map| format!("still recorded: {}", map["data"])));
    for deployment in rig.cell.list("WorkloadDeployment") {
        deployment_at_rest(&deployment, &instances, &mut lines);
    }
    lines
}

fn instance_at_rest(rig: &Rig, instance: &Value, lines: &mut Vec<String>) {
    let name = text(instance, "name");
    let mut say = |what: &str| lines.push(format!("{name}: {what}"));
    if !instance["metadata"]["deletionTimestamp"].is_null() {
        say("is still being deleted");
    }
    let generation = &instance["metadata"]["generation"];
    if condition(instance, "Ready").is_none_or(|ready| ready["observedGeneration"] != *generation) {
        say("Ready is not of its generation");
    }
    match rig.hub.get("Instance", NS, name) {
        Some(copy) => {
            if copy["spec"] != instance["spec"] || copy["status"] != instance["status"] {
                say("the hub's copy differs");
            }
            if copy["metadata"]["labels"][keys::CELL] != NAME {
                say("the hub's copy names another cell");
            }
        }
        None => say("has no copy on the hub"),
    }
}

/// As many Instances as are wished, of the names that they must have, and counted.
fn deployment_at_rest(deployment: &Value, instances: &[Arc<Value>], lines: &mut Vec<String>) {
    let (name, uid) = (text(deployment, "name"), text(deployment, "uid"));
    let own: Vec<&Arc<Value>> = instances
        .iter()
        .filter(|i| i["metadata"]["ownerReferences"][0]["uid"] == uid)
        .collect();
    let wished = deployment["spec"]["scaleSettings"]["minReplicas"]
        .as_u64()
        .unwrap_or(1);
    let names: BTreeSet<String> = own.iter().map(|i| text(i, "name").to_owned()).collect();
    let suspended = deployment["metadata"]["annotations"][keys::SUSPENDED] == "true";
    let expected: BTreeSet<String> = (0..wished).map(|n| format!("{name}-{n}")).collect();
    if names != expected && !suspended {
        lines.push(format!("{name} has {names:?}, should have {wished}"));
    }
    let ready = own
        .iter()
        .filter(|i| condition(i, "Ready").is_some_and(|c| c["status"] == "True"))
        .count();
    let status = &deployment["status"];
    for (count, is) in [("replicas", own.len()), ("readyReplicas", ready)] {
        if status[count] != json!(is) {
            lines.push(format!("{name} says {count} {}, has {is}", status[count]));
        }
    }
}

/// What keeps every Instance of a deployment from being ready with this image.
pub(super) fn unready(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    for instance in rig.cell.list("Instance") {
        let name = text(&instance, "name");
        let ready = condition(&instance, "Ready");
        if ready.is_none_or(|c| c["status"] != "True") {
            lines.push(format!("{name} is not ready: {ready:?}"));
        }
        let owner = &instance["metadata"]["ownerReferences"][0]["name"];
        let wish = rig
            .hub
            .get("WorkloadDeployment", NS, owner.as_str().unwrap_or_default());
        let image = "/runtime/sandbox/containers/0/image";
        let wished = wish
            .as_ref()
            .and_then(|w| w["spec"]["template"]["spec"].pointer(image));
        let pod = rig.cell.get("Pod", NS, name);
        let runs = pod
            .as_ref()
            .and_then(|pod| pod.pointer("/spec/containers/0/image"));
        if wished.is_none() || runs != wished {
            lines.push(format!("{name} runs {runs:?}, should run {wished:?}"));
        }
        let claim = rig
            .project
            .get("ResourceClaim", "default", &format!("instance-{name}"));
        let granted = claim.as_deref().and_then(|claim| condition(claim, "Granted"));
        if granted.is_none_or(|c| c["status"] != "True") {
            lines.push(format!("{name} runs without quota: {granted:?}"));
        }
    }
    lines
}
