//! Deployments that wait while nothing tells their tenants why.

use crate::{
    snapshot::{PROJECTS, Snapshot},
    support::kinds::DEPLOYMENT,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// The projects' deployments without a copy of their own whose condition `Federated` is not False, a line each.
pub(crate) fn silent(state: &Snapshot) -> Vec<String> {
    let copies = state
        .0
        .iter()
        .filter(|(at, _)| at.0 == "hub" && at.1 == DEPLOYMENT.name);
    let carried: BTreeSet<&str> = copies
        .filter(|(_, copy)| copy["metadata"]["deletionTimestamp"].is_null())
        .filter_map(|(_, copy)| copy["metadata"]["annotations"][fedgate_api::keys::SOURCE_UID].as_str())
        .collect();
    let of_projects = state
        .0
        .iter()
        .filter(|(at, _)| PROJECTS.contains(&&*at.0) && at.1 == DEPLOYMENT.name);
    let waits = of_projects.filter(|(_, object)| {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        !carried.contains(uid) && !says(object)
    });
    waits
        .map(|((plane, _, namespace, name), object)| {
            format!("{plane} {namespace}/{name}: {}", object["status"]["conditions"])
        })
        .collect()
}

fn says(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|one| one["type"] == "Federated" && one["status"] == "False")
}

/// The same state without copies and conditions: all deployments wait in it.
pub(crate) fn muted(state: &Snapshot) -> Snapshot {
    let mut muted = state.clone();
    muted.0.retain(|at, _| at.0 != "hub" || at.1 != DEPLOYMENT.name);
    for object in muted.0.values_mut() {
        object["status"]["conditions"] = Value::Null;
    }
    muted
}
