//! What is on all planes, in words that two runs share: UIDs, versions and times are left out or replaced.

use crate::rig::Rig;
use fedgate_simulator::Plane;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The kinds that are compared.
const KINDS: [&str; 9] = [
    "Namespace",
    "ConfigMap",
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
    let mut objects = Vec::new();
    let mut names = BTreeMap::new();
    for (plane, handle) in &planes {
        for kind in KINDS {
            for object in handle.list(kind) {
                let metadata = &object["metadata"];
                let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
                let place = format!("{plane} {kind} {}/{}", text("namespace"), text("name"));
                names.insert(text("uid"), place.clone());
                objects.push((place, Value::clone(&object)));
            }
        }
    }
    let rename = |text: &str| {
        let mut text = text.to_owned();
        for (uid, place) in names.iter().filter(|(uid, _)| !uid.is_empty()) {
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
            Some(other) if other != object => lines.push(format!(
                "differs: {place}\n  expected {object}\n  found    {other}"
            )),
            Some(_) => {}
        }
    }
    lines.extend(
        found
            .keys()
            .filter(|place| !expected.contains_key(*place))
            .map(|place| format!("too much: {place}")),
    );
    lines
}
