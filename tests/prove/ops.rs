//! What tenants and operators do.

use crate::{
    objects::{COMPUTE, config_map, deployment, namespace, secret, template, workload},
    rig::{Rig, SECOND},
};
use fedgate_api::keys;
use fedgate_simulator::karmada::Cluster;
use serde_json::{Value, json};

const DEPLOYMENT: &str = "WorkloadDeployment";
/// The location of the Cluster in DFW.
pub(crate) const LOCATION: &str = "us-south-1";

/// One act. Names: a project, a namespace in it, an object there. What cannot be done (a deployment that does not exist)
/// is left undone, so that random sequences need no bookkeeping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// A namespace is made.
    Namespace(&'static str, &'static str),
    /// A namespace is deleted.
    DropNamespace(&'static str, &'static str),
    /// A deployment is made, in a city, with so many Instances.
    Create(&'static str, &'static str, &'static str, &'static str, u32),
    /// The same with a `ConfigMap` volume.
    CreateWith(
        &'static str,
        &'static str,
        &'static str,
        &'static str,
        &'static str,
    ),
    /// A deployment is deleted.
    Delete(&'static str, &'static str, &'static str),
    /// The number of Instances is set.
    Scale(&'static str, &'static str, &'static str, u32),
    /// It moves to a city.
    Move(&'static str, &'static str, &'static str, &'static str),
    /// It moves to a location, which it names in place of its city.
    Locate(&'static str, &'static str, &'static str, &'static str),
    /// The Cluster in DFW gets a location, or loses it.
    Label(bool),
    /// A second cell, [`SECOND`], joins DFW.
    Join,
    /// An operator drains a cell, or opens it.
    Drain(&'static str, bool),
    /// Karmada sets condition Ready of a cell.
    Ready(&'static str, bool),
    /// An operator asks for a move of every deployment with this name to a cell.
    MoveTo(&'static str, &'static str),
    /// Someone puts a second label of a place on the copy of a deployment by hand.
    LabelCopy(&'static str),
    /// Its template gets another image.
    Image(&'static str, &'static str, &'static str, &'static str),
    /// It is suspended, or runs again.
    Suspend(&'static str, &'static str, &'static str, bool),
    /// It mounts a `ConfigMap`, or none.
    Mount(&'static str, &'static str, &'static str, Option<&'static str>),
    /// A `ConfigMap` has this value.
    Config(&'static str, &'static str, &'static str, &'static str),
    /// A `ConfigMap` is deleted.
    DropConfig(&'static str, &'static str, &'static str),
    /// A Secret has this value, in base 64.
    Secret(&'static str, &'static str, &'static str, &'static str),
    /// A Secret is deleted.
    DropSecret(&'static str, &'static str, &'static str),
    /// A deployment mounts a Secret beside what else it mounts.
    MountSecret(&'static str, &'static str, &'static str, &'static str),
    /// A Workload is in these cities, with an Instance each.
    Workload(&'static str, &'static str, &'static str, &'static [&'static str]),
    /// A Workload is deleted.
    DropWorkload(&'static str, &'static str, &'static str),
    /// A project is disengaged; its plane stays.
    Leave(&'static str),
    /// A project is engaged.
    Engage(&'static str),
    /// Someone deletes the copy of a deployment by hand.
    DropCopy(&'static str),
    /// Someone deletes all city policies of the hub by hand.
    DropPolicies,
    /// Someone edits the copy of a deployment by hand.
    EditCopy(&'static str),
    /// The cell's Instance says that it is not ready, or that it is.
    Report(&'static str, bool),
    /// Someone deletes the projection of an Instance.
    DropProjection(&'static str, &'static str, &'static str),
}

impl Op {
    /// Does it.
    pub(crate) fn apply(&self, rig: &mut Rig) {
        match *self {
            Self::Namespace(p, ns) => put(rig, p, namespace(ns)),
            Self::DropNamespace(p, ns) => drop_one(rig, p, "Namespace", "", ns),
            Self::Create(p, ns, name, city, n) => put(rig, p, deployment(ns, name, city, n, None)),
            Self::CreateWith(p, ns, name, city, config) => {
                put(rig, p, deployment(ns, name, city, 1, Some(config)));
            }
            Self::Delete(p, ns, name) => drop_one(rig, p, DEPLOYMENT, ns, name),
            Self::Scale(p, ns, name, n) => {
                change(
                    rig,
                    p,
                    ns,
                    name,
                    json!({"spec": {"scaleSettings": {"minReplicas": n}}}),
                );
            }
            Self::Move(p, ns, name, city) => {
                let place = json!({"cityCode": city, "locationRef": null});
                change(rig, p, ns, name, json!({"spec": place}));
            }
            Self::Locate(p, ns, name, location) => {
                let place = json!({"cityCode": null, "locationRef": {"name": location}});
                change(rig, p, ns, name, json!({"spec": place}));
            }
            Self::Image(p, ns, name, image) => {
                let mut changed = template(None);
                changed["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!(image);
                change(rig, p, ns, name, json!({"spec": {"template": changed}}));
            }
            Self::Suspend(p, ns, name, on) => {
                let value = if on { json!("true") } else { Value::Null };
                change(
                    rig,
                    p,
                    ns,
                    name,
                    json!({"metadata": {"annotations": {keys::SUSPENDED: value}}}),
                );
            }
            Self::Mount(p, ns, name, config) => {
                let mut changed = template(config);
                if config.is_none() {
                    changed["spec"]["volumes"] = Value::Null;
                }
                change(rig, p, ns, name, json!({"spec": {"template": changed}}));
            }
            Self::Config(p, ns, name, value) => {
                put_or_merge(rig, p, config_map(ns, name, value), &["data"]);
            }
            Self::DropConfig(p, ns, name) => drop_one(rig, p, "ConfigMap", ns, name),
            Self::Secret(p, ns, name, value) => {
                put_or_merge(rig, p, secret(ns, name, value), &["data"]);
            }
            Self::DropSecret(p, ns, name) => drop_one(rig, p, "Secret", ns, name),
            Self::MountSecret(p, ns, name, secret) => mount_secret(rig, p, ns, name, secret),
            Self::Workload(p, ns, name, cities) => {
                put_or_merge(rig, p, workload(ns, name, cities), &["spec", "placements"]);
            }
            Self::DropWorkload(p, ns, name) => drop_one(rig, p, "Workload", ns, name),
            Self::Leave(p) => rig.leave(p),
            Self::Engage(p) => {
                if !rig.projects.contains_key(p) {
                    rig.engage(p);
                }
            }
            Self::DropProjection(p, ns, name) => drop_one(rig, p, "Instance", ns, name),
            Self::Label(_)
            | Self::Join
            | Self::Drain(..)
            | Self::Ready(..)
            | Self::MoveTo(..)
            | Self::LabelCopy(_)
            | Self::DropCopy(_)
            | Self::DropPolicies
            | Self::EditCopy(_)
            | Self::Report(..) => self.apply_on_hub(rig),
        }
    }

    /// Does what happens on the hub.
    fn apply_on_hub(&self, rig: &Rig) {
        match *self {
            Self::Label(on) => {
                let location = if on { json!(LOCATION) } else { Value::Null };
                let labels = json!({"metadata": {"labels": {keys::LOCATION: location}}});
                // Another test may have no such Cluster.
                let _ = rig.hub.merge("Cluster.cluster.karmada.io", "", "dfw-1", labels);
            }
            Self::Join => {
                rig.karmada.join(&Cluster::new(SECOND, keys::CITY_CODE, "DFW"));
                serve_all(rig, SECOND);
            }
            Self::Drain(cell, on) => {
                let taint = json!({"key": keys::DRAINING, "effect": "NoSchedule"});
                let taints = if on { json!([taint]) } else { Value::Null };
                let spec = json!({"spec": {"taints": taints}});
                // Another test may have no such Cluster.
                let _ = rig.hub.merge("Cluster.cluster.karmada.io", "", cell, spec);
            }
            Self::Ready(cell, on) => rig.karmada.ready(cell, on),
            Self::MoveTo(name, cell) => each(
                rig,
                DEPLOYMENT,
                |n| n == name,
                |rig, ns, name| {
                    let annotations = json!({"metadata": {"annotations": {keys::MOVE_TO: cell}}});
                    let _ = rig.hub.merge(DEPLOYMENT, ns, name, annotations);
                },
            ),
            Self::LabelCopy(name) => each(
                rig,
                DEPLOYMENT,
                |n| n == name,
                |rig, ns, name| {
                    let labels = json!({keys::CITY_CODE: "LHR", keys::LOCATION: LOCATION});
                    let _ = rig
                        .hub
                        .merge(DEPLOYMENT, ns, name, json!({"metadata": {"labels": labels}}));
                },
            ),
            Self::DropCopy(name) => each(
                rig,
                DEPLOYMENT,
                |n| n == name,
                |rig, ns, name| {
                    let _ = rig.hub.delete(DEPLOYMENT, ns, name);
                },
            ),
            Self::DropPolicies => each(
                rig,
                "PropagationPolicy",
                |_| true,
                |rig, ns, name| {
                    let _ = rig.hub.delete("PropagationPolicy", ns, name);
                },
            ),
            Self::EditCopy(name) => each(
                rig,
                DEPLOYMENT,
                |n| n == name,
                |rig, ns, name| {
                    let edit = json!({"spec": {"scaleSettings": {"minReplicas": 7}}});
                    let _ = rig.hub.merge(DEPLOYMENT, ns, name, edit);
                },
            ),
            Self::Report(name, ready) => each(
                rig,
                "Instance",
                |n| n == name,
                |rig, ns, name| {
                    let status = json!({"status": crate::objects::instance_status(ready)});
                    let _ = rig.hub.merge_status("Instance", ns, name, status);
                },
            ),
            _ => {}
        }
    }
}

/// Makes a Cluster report that it serves the federated kinds and Instances.
pub(crate) fn serve_all(rig: &Rig, cell: &str) {
    let kinds = |version: &str, names: &[&str]| {
        let names: Vec<Value> = names.iter().map(|name| json!({"kind": name})).collect();
        json!({"groupVersion": version, "resources": names})
    };
    let served = json!({"status": {"apiEnablements": [
        kinds(COMPUTE, &[DEPLOYMENT, "Instance"]),
        kinds("v1", &["Namespace", "ConfigMap", "Secret"]),
    ]}});
    // Another test may have no such Cluster.
    let _ = rig
        .hub
        .merge_status("Cluster.cluster.karmada.io", "", cell, served);
}

fn mount_secret(rig: &Rig, project: &str, ns: &str, name: &str, secret: &str) {
    let plane = rig.simulator.plane(project);
    let Some(found) = plane.and_then(|plane| plane.get(DEPLOYMENT, ns, name)) else {
        return;
    };
    let mut changed = found["spec"]["template"].clone();
    let volume = json!({"name": "secret", "secret": {"secretName": secret}});
    let mount = json!({"name": "secret", "mountPath": "/etc/secret"});
    append(&mut changed["spec"]["volumes"], volume);
    let container = &mut changed["spec"]["runtime"]["sandbox"]["containers"][0];
    append(&mut container["volumeAttachments"], mount);
    change(rig, project, ns, name, json!({"spec": {"template": changed}}));
}

/// Changes this field of the object, or makes it.
fn put_or_merge(rig: &Rig, project: &str, object: Value, field: &[&str]) {
    let Some(plane) = rig.simulator.plane(project) else {
        return;
    };
    let wished = field.iter().fold(&object, |at, key| &at[*key]).clone();
    let patch = field.iter().rev().fold(wished, |inner, key| json!({*key: inner}));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [kind, ns, name] = [
        &object["kind"],
        &object["metadata"]["namespace"],
        &object["metadata"]["name"],
    ]
    .map(text);
    if plane.merge(&kind, &ns, &name, patch).is_err() {
        // The namespace may be gone.
        let _ = plane.create(object);
    }
}

/// Adds an item to a list that may not be there; one of its name is replaced.
fn append(list: &mut Value, item: Value) {
    let mut items = list.as_array().cloned().unwrap_or_default();
    items.retain(|had| had["name"] != item["name"]);
    items.push(item);
    *list = Value::Array(items);
}

fn put(rig: &Rig, project: &str, object: Value) {
    if let Some(plane) = rig.simulator.plane(project) {
        // It may be there already, or its namespace may be gone.
        let _ = plane.create(object);
    }
}

fn drop_one(rig: &Rig, project: &str, kind: &str, namespace: &str, name: &str) {
    if let Some(plane) = rig.simulator.plane(project) {
        // It may be gone already.
        let _ = plane.delete(kind, namespace, name);
    }
}

fn change(rig: &Rig, project: &str, namespace: &str, name: &str, patch: Value) {
    if let Some(plane) = rig.simulator.plane(project) {
        // It may be gone already.
        let _ = plane.merge(DEPLOYMENT, namespace, name, patch);
    }
}

/// Does something to each object of the hub with such a name.
fn each(rig: &Rig, kind: &str, wanted: impl Fn(&str) -> bool, act: impl Fn(&Rig, &str, &str)) {
    for object in rig.hub.list(kind) {
        let metadata = &object["metadata"];
        let (namespace, name) = (metadata["namespace"].as_str(), metadata["name"].as_str());
        if let (Some(namespace), Some(name)) = (namespace, name)
            && wanted(name)
        {
            act(rig, namespace, name);
        }
    }
}
