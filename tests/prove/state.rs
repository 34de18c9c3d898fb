//! What is on all planes, in words that two runs share: UIDs, versions and times are left out or replaced.

use crate::rig::Rig;
use fedgate_api::keys;
use fedgate_simulator::Plane;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds that are compared.
const KINDS: [&str; 10] = [
    "Namespace",
    "ConfigMap",
    "Secret",
    "WorkloadDeployment",
    "Instance",
    "Workload",
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "ResourceBinding",
    "ResourceInterpreterCustomization",
];

/// Each object by plane, kind and name.
pub(crate) type State = BTreeMap<String, Value>;

/// Everything there is.
pub(crate) fn state(rig: &Rig) -> State {
    let mut planes: Vec<(String, Plane)> = vec![("hub".to_owned(), rig.hub.clone())];
    planes.extend(
        rig.simulator
            .names()
            .into_iter()
            .filter(|n| n != "hub")
            .filter_map(|name| {
                let plane = rig.simulator.plane(&name)?;
                Some((name, plane))
            }),
    );
    of(&planes, &KINDS)
}

/// All objects of these kinds on these planes.
pub(crate) fn of(planes: &[(String, Plane)], kinds: &[&str]) -> State {
    let mut objects = Vec::new();
    let mut names = BTreeMap::new();
    for (plane, handle) in planes {
        for kind in kinds.iter().copied() {
            for object in handle.list(kind) {
                let metadata = &object["metadata"];
                let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
                let place = format!("{plane} {kind} {}/{}", text("namespace"), text("name"));
                names.insert(text("uid"), place.clone());
                // Karmada's own identity of a policy or a binding; what they claim carries it too.
                let own = match kind {
                    "PropagationPolicy" => Some(keys::CLAIM_ID),
                    "ClusterPropagationPolicy" => Some(keys::CLUSTER_CLAIM_ID),
                    "ResourceBinding" => Some("resourcebinding.karmada.io/permanent-id"),
                    _ => None,
                };
                if let Some(id) = own.and_then(|key| metadata["labels"][key].as_str()) {
                    names.insert(id.to_owned(), place.clone());
                }
                objects.push((place, Value::clone(&object)));
            }
        }
    }
    // The names that UIDs are replaced by hold UIDs of namespaces themselves, so it is done twice.
    let rename = |text: &str| {
        let mut text = text.to_owned();
        for (uid, place) in names.iter().chain(&names).filter(|(uid, _)| !uid.is_empty()) {
            if text.contains(uid.as_str()) {
                text = text.replace(uid.as_str(), &format!("<{place}>"));
            }
        }
        text
    };
    objects
        .into_iter()
        .map(|(place, mut object)| {
            strip(&mut object);
            (rename(&place), replace(&object, &rename))
        })
        .collect()
}

/// Takes off what no two runs share.
fn strip(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for key in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "managedFields",
                "lastTransitionTime",
                "deletionTimestamp",
                // How often Karmada has scheduled.
                "schedulerObservedGeneration",
            ] {
                fields.remove(key);
            }
            // A copy that was deleted by hand and made anew, or not, begins its generations anew.
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("generation");
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn replace(value: &Value, rename: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(rename(text)),
        Value::Array(items) => Value::Array(items.iter().map(|item| replace(item, rename)).collect()),
        Value::Object(fields) => {
            let fields: Map<String, Value> = fields
                .iter()
                .map(|(key, value)| (rename(key), replace(value, rename)))
                .collect();
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

/// What differs, a line each; empty if nothing does.
pub(crate) fn differences(expected: &State, found: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for (place, object) in expected {
        match found.get(place) {
            None => lines.push(format!("missing: {place}")),
            Some(other) => compare(place, object, other, &mut lines),
        }
    }
    let more = found.keys().filter(|place| !expected.contains_key(*place));
    lines.extend(more.map(|place| format!("too much: {place}")));
    lines
}

fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(before), Value::Object(after)) => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let (one, other) = (before.get(key), after.get(key));
                let of = |value: Option<&Value>| value.cloned().unwrap_or_default();
                compare(&format!("{path}.{key}"), &of(one), &of(other), lines);
            }
        }
        (one, other) if one == other => {}
        (one, other) => lines.push(format!("differs: {path}: expected {one}, found {other}")),
    }
}
