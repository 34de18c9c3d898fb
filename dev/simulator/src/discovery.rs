//! What a plane tells of its kinds: the groups, their versions, and the resources of a version.

use crate::{definition::Definition, state::State};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Verbs of a kind, and of a part of its objects.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Answers a path of discovery; `None` if there is nothing.
pub(crate) fn discover(state: &State, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["api", version] => resources(state, "", version),
        ["apis"] => {
            let groups: BTreeSet<&str> = kinds(state).map(|kind| &*kind.group).collect();
            let groups = groups.into_iter().filter(|group| !group.is_empty());
            let groups: Vec<Value> = groups.filter_map(|name| group(state, name)).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => {
            let mut group = group(state, name)?;
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            Some(group)
        }
        ["apis", group, version] => resources(state, group, version),
        _ => None,
    }
}

fn kinds(state: &State) -> impl Iterator<Item = &Definition> {
    state.tables.iter().map(|table| &*table.definition)
}

fn group(state: &State, name: &str) -> Option<Value> {
    let mut versions: Vec<Value> = Vec::new();
    for kind in kinds(state).filter(|kind| &*kind.group == name) {
        for version in &kind.versions {
            let one = json!({"groupVersion": version.full_name, "version": version.name});
            if !versions.contains(&one) {
                versions.push(one);
            }
        }
    }
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    let mut full_name = None;
    for kind in kinds(state).filter(|kind| &*kind.group == group) {
        let Some(version) = kind.version(version) else {
            continue;
        };
        full_name = Some(&version.full_name);
        let resource = |name: &str, singular: &str, verbs: &[&str]| {
            json!({"name": name, "singularName": singular, "namespaced": kind.namespaced,
                "kind": &*kind.kind, "verbs": verbs})
        };
        resources.push(resource(&kind.plural, &kind.kind.to_lowercase(), &VERBS));
        if version.status {
            resources.push(resource(&format!("{}/status", kind.plural), "", &PART_VERBS));
        }
    }
    let mut list = json!({"kind": "APIResourceList", "groupVersion": full_name?, "resources": resources});
    // The core's lists are older than the field.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}
