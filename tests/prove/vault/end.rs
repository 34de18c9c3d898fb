//! What must hold of vaults in the end, of whatever went before.

use super::{ops::LOGIN, rig::MEMBERS};
use crate::rig::Rig;
use fedgate_api::keys;
use serde_json::Value;
use std::collections::BTreeSet;

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn lane(object: &Value) -> &str {
    object["metadata"]["labels"][keys::LANE]
        .as_str()
        .unwrap_or_default()
}

/// What is wrong, a line each: each vault is at one member as its tenant wrote it, and nothing is left of others.
pub(super) fn wrong(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut expected, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for (project, plane) in &rig.projects {
        for vault in plane.list("Vault") {
            let (namespace, name) = (text(&vault, "namespace"), text(&vault, "name"));
            let space = plane.get("Namespace", "", namespace);
            let hub = space.map_or_else(String::new, |space| format!("ns-{}", text(&space, "uid")));
            if is_ended(&vault) {
                // Nothing of it is anywhere but its pin.
                ended.insert((hub, name.to_owned()));
                continue;
            }
            delivered(
                rig,
                &format!("{project} {namespace}/{name}"),
                &hub,
                &vault,
                &mut lines,
            );
            expected.insert((hub, name.to_owned()));
        }
    }
    let own = |object: &Value| {
        (
            text(object, "namespace").to_owned(),
            text(object, "name").to_owned(),
        )
    };
    let members = MEMBERS.iter().filter_map(|(name, _)| rig.simulator.plane(name));
    for plane in members.chain([rig.hub.clone()]) {
        let all = ["Vault", "Seal"].into_iter().flat_map(|kind| plane.list(kind));
        for object in all.filter(|object| !expected.contains(&own(object))) {
            lines.push(format!(
                "{} has {} {:?}, which has no origin",
                plane.name(),
                object["kind"],
                own(&object)
            ));
        }
    }
    expected.extend(ended);
    lines.extend(left_over(rig, &expected));
    lines
}

/// True if its member has ended the vault, so that the vault is nowhere but in its project.
fn is_ended(vault: &Value) -> bool {
    let conditions = vault["status"]["conditions"].as_array();
    let is_alive = vault["metadata"]["deletionTimestamp"].is_null();
    let mut conditions = conditions.into_iter().flatten();
    is_alive
        && conditions
            .any(|condition| condition["type"] == "StatusCurrent" && condition["reason"] == "EndedByMember")
}

fn delivered(rig: &Rig, place: &str, hub: &str, vault: &Value, lines: &mut Vec<String>) {
    let name = text(vault, "name");
    if !vault["metadata"]["deletionTimestamp"].is_null() {
        let conditions = &vault["status"]["conditions"];
        return lines.push(format!("{place} is still being deleted: {conditions}"));
    }
    let there: Vec<(&str, _)> = MEMBERS
        .iter()
        .filter_map(|(member, _)| Some((*member, rig.simulator.plane(member)?.get("Vault", hub, name)?)))
        .collect();
    let [(member, below)] = there.as_slice() else {
        let copy = rig.hub.get("Vault", hub, name);
        let copy = copy.map(|copy| lane(&copy).to_owned());
        let members: Vec<&str> = there.iter().map(|(member, _)| *member).collect();
        let conditions = &vault["status"]["conditions"];
        return lines.push(format!(
            "{place} is at {members:?}, its copy in {copy:?}: {conditions}"
        ));
    };
    if below["spec"] != vault["spec"] {
        lines.push(format!(
            "{place} is {} at {member}, not {}",
            below["spec"], vault["spec"]
        ));
    }
    let copy = rig.hub.get("Vault", hub, name);
    let copy_lane = copy.as_ref().map(|copy| lane(copy).to_owned());
    if copy_lane != Some(format!("vault-pin-{member}")) {
        lines.push(format!("{place} is at {member}, its copy in {copy_lane:?}"));
    }
    let conditions = vault["status"]["conditions"].as_array().into_iter().flatten();
    let federated = conditions
        .clone()
        .find(|condition| condition["type"] == "Federated");
    if federated.is_none_or(|condition| condition["reason"] != "Delivered") {
        lines.push(format!("{place} says {federated:?}"));
    }
    let seal = rig.hub.get("Seal", hub, name);
    if seal.as_deref().map(lane) != Some(&*format!("keep-{member}")) {
        lines.push(format!(
            "{place} is at {member}, its seal in {:?}",
            seal.as_deref().map(lane)
        ));
    }
    let at = rig.simulator.plane(member);
    let owner = at
        .as_ref()
        .and_then(|at| at.get("Seal", hub, name))
        .map(|seal| seal["metadata"]["ownerReferences"][0]["uid"].clone());
    if owner.as_ref() != Some(&below["metadata"]["uid"]) {
        lines.push(format!("{place} is at {member}, its seal there is {owner:?}'s"));
    }
    if at.is_none_or(|at| at.get("Secret", hub, LOGIN).is_none()) {
        lines.push(format!("{place} has no {LOGIN} at {member}"));
    }
}

/// Pins of nothing, lanes that nothing is in, and Works that do not end.
fn left_over(rig: &Rig, expected: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut lines = Vec::new();
    for record in rig.hub.list("ConfigMap") {
        let Some(space) = text(&record, "name").strip_prefix("fedgate-pins-") else {
            continue;
        };
        for key in record["data"]
            .as_object()
            .into_iter()
            .flat_map(|data| data.keys())
        {
            let name = key.rsplit('_').next().unwrap_or_default().to_owned();
            if !expected.contains(&(format!("ns-{space}"), name)) {
                lines.push(format!("{key} of ns-{space} is pinned and is not there"));
            }
        }
    }
    let kinds = ["Vault", "Secret", "ConfigMap", "Seal"];
    let objects = kinds.into_iter().flat_map(|kind| rig.hub.list(kind));
    let used: BTreeSet<(String, String)> = objects
        .map(|object| (text(&object, "namespace").to_owned(), lane(&object).to_owned()))
        .collect();
    for policy in rig.hub.list("PropagationPolicy") {
        let at = (
            text(&policy, "namespace").to_owned(),
            text(&policy, "name").to_owned(),
        );
        if !used.contains(&at) {
            lines.push(format!("{at:?} is a lane that nothing is in"));
        }
    }
    for work in rig.hub.list("Work") {
        if !work["metadata"]["deletionTimestamp"].is_null() {
            lines.push(format!(
                "Work {}/{} does not end",
                text(&work, "namespace"),
                text(&work, "name")
            ));
        }
    }
    lines
}
