//! What must hold at every moment of a cell's life, checked against each change of any plane in the order of the changes.

use super::{
    planes::{CELL, PROJECT},
    rig::USER,
};
use crate::rig::HUB;
use fedgate_api::keys;
use fedgate_simulator::Change;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Plane, kind, namespace, name.
type Place = (Arc<str>, String, String, String);

/// All objects at one moment, and what the cell's rolls have taken down.
#[derive(Debug, Default)]
pub(super) struct Watchman {
    objects: BTreeMap<Place, Arc<Value>>,
    /// The ordinal that a roll has taken down last, by deployment.
    rolled: BTreeMap<String, u64>,
    seen: usize,
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

fn instance_uid(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][keys::INSTANCE_UID].as_str()
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(instance: &Value) -> bool {
    let conditions = instance["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn gates(instance: &Value) -> BTreeSet<&str> {
    let gates = instance["spec"]["controller"]["schedulingGates"].as_array();
    let names = gates
        .into_iter()
        .flatten()
        .filter_map(|gate| gate["name"].as_str());
    names.collect()
}

fn ordinal(instance: &Value) -> Option<u64> {
    label(instance, keys::INSTANCE_INDEX)?.parse().ok()
}

impl Watchman {
    /// What the next changes violate, a line each.
    pub(super) fn violations(&mut self, changes: &[Change]) -> Vec<String> {
        let mut lines = Vec::new();
        for change in changes {
            self.seen += 1;
            let Some(object) = change.after.as_ref().or(change.before.as_ref()) else {
                continue;
            };
            if let Err(line) = self.check(change, object) {
                lines.push(format!(
                    "change {} by {} at {}: {} {}: {line}",
                    self.seen,
                    change.user,
                    change.plane,
                    object["kind"],
                    text(object, "name")
                ));
            }
            let place = (
                change.plane.clone(),
                object["kind"].as_str().unwrap_or_default().to_owned(),
                text(object, "namespace").to_owned(),
                text(object, "name").to_owned(),
            );
            match &change.after {
                Some(after) => self.objects.insert(place, after.clone()),
                None => self.objects.remove(&place),
            };
        }
        lines
    }

    fn all<'a>(&'a self, plane: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let wanted = move |(place, _): &(&Place, &Arc<Value>)| &*place.0 == plane && place.1 == kind;
        self.objects.iter().filter(wanted).map(|(_, object)| &**object)
    }

    /// Checked before the change is taken in.
    fn check(&mut self, change: &Change, object: &Value) -> Result<(), String> {
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        let by_cell = &*change.user == USER;
        let ends = after.is_none_or(is_going) && !before.is_some_and(is_going);
        match (&*change.plane, object["kind"].as_str().unwrap_or_default()) {
            (PROJECT, "ResourceClaim") | (HUB, "Instance") if by_cell && ends => self.released(object),
            (CELL, "Instance") => {
                if let (None, Some(after)) = (before, after) {
                    self.made(after)?;
                }
                if let (Some(before), Some(after)) = (before, after) {
                    gated(before, after)?;
                }
                if let (Some(before), true, true) = (before, by_cell, ends) {
                    self.taken_down(before)?;
                }
                match (before, after) {
                    (Some(before), None) => self.left(before),
                    _ => Ok(()),
                }
            }
            (CELL, "Pod") if by_cell && ends => self.stopped(object),
            _ => Ok(()),
        }
    }

    /// C1: an ordinal has one live Instance.
    fn made(&self, made: &Value) -> Result<(), String> {
        let deployment = label(made, keys::WORKLOAD_DEPLOYMENT_NAME);
        let twin = self.all(CELL, "Instance").find(|other| {
            !is_going(other)
                && label(other, keys::WORKLOAD_DEPLOYMENT_NAME) == deployment
                && ordinal(other) == ordinal(made)
        });
        match twin {
            Some(twin) => Err(format!("C1: {} has its ordinal", text(twin, "name"))),
            None => Ok(()),
        }
    }

    /// C2: a claim and a copy are released when nothing of the Instance runs.
    fn released(&self, object: &Value) -> Result<(), String> {
        let Some(uid) = instance_uid(object) else {
            return Err("C2: what is nobody's is deleted".to_owned());
        };
        let runs = self
            .all(CELL, "Pod")
            .find(|pod| label(pod, keys::INSTANCE_UID) == Some(uid));
        match runs {
            Some(pod) => Err(format!(
                "C2: it is released while Pod {} is there",
                text(pod, "name")
            )),
            None => Ok(()),
        }
    }

    /// C3: an Instance that is gone has left nothing behind but what is recorded.
    fn left(&self, gone: &Value) -> Result<(), String> {
        let uid = text(gone, "uid");
        let recorded = self
            .all(CELL, "ConfigMap")
            .any(|map| text(map, "name").starts_with("fedgate-releases-") && !map["data"][uid].is_null());
        let claims = self.all(PROJECT, "ResourceClaim");
        let left = claims
            .chain(self.all(HUB, "Instance"))
            .find(|left| instance_uid(left) == Some(uid) && !is_going(left));
        let pod = self
            .all(CELL, "Pod")
            .find(|pod| label(pod, keys::INSTANCE_UID) == Some(uid));
        match (left.filter(|_| !recorded), pod) {
            (Some(left), _) => Err(format!(
                "C3: {} {} is left behind",
                left["kind"],
                text(left, "name")
            )),
            (_, Some(pod)) => Err(format!("C3: Pod {} is left behind", text(pod, "name"))),
            _ => Ok(()),
        }
    }

    /// C7: with settings of the rollout, as many Instances stay ready as they ask for.
    fn kept_serving(&self, deployment: &Value, instance: &Value) -> Result<(), String> {
        let scale = &deployment["spec"]["scaleSettings"];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let (wished, settings) = (number(&scale["minReplicas"]), &scale["rollout"]);
        let own = |other: &&Value| {
            other["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
                && !is_going(other)
        };
        // The surge has no quota, or there is none.
        let is_denied = self
            .all(CELL, "Instance")
            .filter(own)
            .any(|other| ordinal(other) >= Some(wished) && gates(other).contains("Quota"));
        let least = u64::from(is_denied || settings["maxSurge"] == 0);
        let unavailable = number(&settings["maxUnavailable"]).max(least);
        let others = self
            .all(CELL, "Instance")
            .filter(own)
            .filter(|other| text(other, "uid") != text(instance, "uid") && is_ready(other))
            .count();
        let needed = wished.saturating_sub(unavailable);
        if u64::try_from(others).is_ok_and(|others| others >= needed) {
            Ok(())
        } else {
            Err(format!(
                "C7: it is taken down while {others} others are ready, of {needed}"
            ))
        }
    }

    /// C4: a roll takes the next ready Instance down when the one before is ready again.
    fn taken_down(&mut self, instance: &Value) -> Result<(), String> {
        let Some(name) = label(instance, keys::WORKLOAD_DEPLOYMENT_NAME) else {
            return Ok(());
        };
        let owner = &instance["metadata"]["ownerReferences"][0]["uid"];
        let deployment = self
            .all(CELL, "WorkloadDeployment")
            .find(|d| text(d, "name") == name && d["metadata"]["uid"] == *owner);
        let wished = deployment.and_then(|d| d["spec"]["scaleSettings"]["minReplicas"].as_u64());
        let (Some(wished), Some(ordinal)) = (wished, ordinal(instance)) else {
            return Ok(());
        };
        if let Some(deployment) = deployment
            && deployment["spec"]["scaleSettings"]["rollout"].is_object()
        {
            return if is_ready(instance) {
                self.kept_serving(deployment, instance)
            } else {
                Ok(())
            };
        }
        if !is_ready(instance) || ordinal >= wished {
            return Ok(());
        }
        let before = self.rolled.insert(name.to_owned(), ordinal);
        let Some(before) = before.filter(|before| *before < wished && *before != ordinal) else {
            return Ok(());
        };
        let again = self.all(CELL, "Instance").any(|other| {
            text(other, "name") == format!("{name}-{before}") && !is_going(other) && is_ready(other)
        });
        if again {
            Ok(())
        } else {
            Err(format!(
                "C4: it is taken down while {name}-{before} is not ready again"
            ))
        }
    }

    /// C5: nothing is stopped while its Instance says that it serves.
    fn stopped(&self, pod: &Value) -> Result<(), String> {
        let uid = label(pod, keys::INSTANCE_UID);
        let serves = self
            .all(CELL, "Instance")
            .any(|instance| Some(text(instance, "uid")) == uid && is_ready(instance));
        if serves {
            Err("C5: it is stopped while its Instance says that it is ready".to_owned())
        } else {
            Ok(())
        }
    }
}

/// C6: no gate returns, and what is gated is not ready.
fn gated(before: &Value, after: &Value) -> Result<(), String> {
    let (had, has) = (gates(before), gates(after));
    if !has.is_subset(&had) {
        return Err(format!("C6: of gates {had:?} came {has:?}"));
    }
    if is_ready(after) && !has.is_empty() {
        return Err(format!("C6: it is ready behind {has:?}"));
    }
    Ok(())
}

/// An Instance of two of deployment `web`.
fn web(ordinal: u64, ready: bool, gates: &[&str]) -> Value {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
    json!({
        "kind": "Instance",
        "metadata": {
            "name": format!("web-{ordinal}"), "uid": format!("i-{ordinal}"),
            "labels": {keys::WORKLOAD_DEPLOYMENT_NAME: "web", keys::INSTANCE_INDEX: ordinal.to_string()},
            "ownerReferences": [{"name": "web", "uid": "d"}],
        },
        "spec": {"controller": {"schedulingGates": gates}},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

/// What is left elsewhere of the first Instance.
fn elsewhere(kind: &str) -> Value {
    json!({"kind": kind, "metadata": {
        "name": "web-0", "annotations": {keys::INSTANCE_UID: "i-0"}, "labels": {keys::INSTANCE_UID: "i-0"},
    }})
}

/// The numbers of what is violated when the cell makes these changes: plane, before, after.
fn violated(changes: &[(&str, Option<Value>, Option<Value>)]) -> Vec<String> {
    let change = |(plane, before, after): &(&str, Option<Value>, Option<Value>)| Change {
        plane: (*plane).into(),
        user: USER.into(),
        at: tokio::time::Instant::now(),
        group: "".into(),
        resource: "".into(),
        before: before.clone().map(Arc::new),
        after: after.clone().map(Arc::new),
    };
    let changes: Vec<Change> = changes.iter().map(change).collect();
    let lines = Watchman::default().violations(&changes);
    let number = |line: &String| line.split(": ").nth(2).unwrap_or_default().to_owned();
    lines.iter().map(number).collect()
}

#[test]
fn each_violation_is_noticed_and_nothing_else() {
    let deployment = json!({"kind": "WorkloadDeployment", "metadata": {"name": "web", "uid": "d"},
        "spec": {"scaleSettings": {"minReplicas": 2}}});
    let made = |object: Value| (CELL, None, Some(object));
    let gone = |plane, object: Value| (plane, Some(object), None);
    let (first, second) = (web(0, true, &[]), web(1, true, &[]));
    let mut twin = first.clone();
    twin["metadata"]["name"] = json!("web-x");
    let claim = elsewhere("ResourceClaim");
    let claimed = (PROJECT, None, Some(claim.clone()));
    let gated = web(0, false, &["Quota"]);

    assert_eq!(violated(&[made(first.clone()), made(second.clone())]), [""; 0]);
    assert_eq!(violated(&[made(first.clone()), made(twin)]), ["C1"]);
    let runs = made(elsewhere("Pod"));
    assert_eq!(violated(&[runs.clone(), gone(PROJECT, claim.clone())]), ["C2"]);
    assert_eq!(violated(&[claimed, gone(CELL, web(0, false, &[]))]), ["C3"]);
    assert_eq!(violated(&[runs.clone(), gone(CELL, web(0, false, &[]))]), ["C3"]);
    let both = [made(deployment), made(first.clone()), made(second.clone())];
    let rolled = [gone(CELL, second.clone()), gone(CELL, first.clone())];
    assert_eq!(violated(&[both.to_vec(), rolled.to_vec()].concat()), ["C4"]);
    let in_turn = [rolled[0].clone(), made(second), rolled[1].clone()];
    assert_eq!(violated(&[both.to_vec(), in_turn.to_vec()].concat()), [""; 0]);
    let mut surging = both[0].clone();
    if let Some(deployment) = &mut surging.2 {
        deployment["spec"]["scaleSettings"]["rollout"] = json!({"maxSurge": 1});
    }
    let surging = [surging, both[1].clone(), both[2].clone()];
    let one_goes = [gone(CELL, web(0, true, &[]))];
    assert_eq!(violated(&[surging.to_vec(), one_goes.to_vec()].concat()), ["C7"]);
    let surge = [made(web(2, true, &[]))];
    assert_eq!(
        violated(&[surging.to_vec(), surge.to_vec(), one_goes.to_vec()].concat()),
        [""; 0]
    );
    let denied = [made(web(2, false, &["Quota"]))];
    assert_eq!(
        violated(&[surging.to_vec(), denied.to_vec(), one_goes.to_vec()].concat()),
        [""; 0]
    );
    let stopped = gone(CELL, elsewhere("Pod"));
    assert_eq!(violated(&[made(first.clone()), runs, stopped]), ["C5"]);
    assert_eq!(violated(&[(CELL, Some(first), Some(gated.clone()))]), ["C6"]);
    assert_eq!(
        violated(&[(CELL, Some(gated), Some(web(0, true, &["Quota"])))]),
        ["C6"]
    );
}
