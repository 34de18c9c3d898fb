//! What tenants, operators and hands do to vaults.

use super::rig::CLUSTER;
use crate::{
    objects::{namespace, secret},
    rig::Rig,
};
use fedgate_api::keys;
use serde_json::{Value, json};

const SUSPENDED: &str = "example.fedgate.dev/suspended";
/// The Secret that every vault names.
pub(super) const LOGIN: &str = "login";

/// One act; what cannot be done is left undone. Names: a project, a namespace in it, an object there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Namespace(&'static str, &'static str),
    DropNamespace(&'static str, &'static str),
    /// The Secret has this value.
    Secret(&'static str, &'static str, &'static str),
    /// A vault is made in a city.
    Create(&'static str, &'static str, &'static str, &'static str),
    Edit(&'static str, &'static str, &'static str, u32),
    Suspend(&'static str, &'static str, &'static str, bool),
    /// The guard of a vault is set, or taken off.
    Lock(&'static str, &'static str, &'static str, bool),
    Delete(&'static str, &'static str, &'static str),
    /// Someone deletes all copies of this name on the hub by hand.
    DropCopy(&'static str),
    /// Someone deletes all seals of this name on the hub by hand.
    DropSeal(&'static str),
    /// Someone deletes by hand the policies whose names contain this.
    DropPolicies(&'static str),
    /// Someone deletes all hub Namespaces of projects by hand.
    DropHubNamespaces,
    /// A Cluster has this city, or none.
    City(&'static str, Option<&'static str>),
    /// A Cluster gets a taint, or loses it.
    Taint(&'static str, bool),
    /// A Cluster is ready, or not.
    Ready(&'static str, bool),
}

impl Act {
    /// Does it. What is not there, or is there already, stays as it is.
    pub(super) fn apply(&self, rig: &Rig) {
        match *self {
            Self::Namespace(p, ns) => drop(rig.projects[p].create(namespace(ns))),
            Self::DropNamespace(p, ns) => drop(rig.projects[p].delete("Namespace", "", ns)),
            Self::Secret(p, ns, value) => {
                let data = json!({"data": {"password": value}});
                if rig.projects[p].merge("Secret", ns, LOGIN, data).is_err() {
                    drop(rig.projects[p].create(secret(ns, LOGIN, value)));
                }
            }
            Self::Create(p, ns, name, city) => {
                drop(rig.projects[p].create(seal(ns, name)));
                drop(rig.projects[p].create(vault(ns, name, city)));
            }
            Self::Edit(p, ns, name, size) => change(rig, p, ns, name, json!({"spec": {"size": size}})),
            Self::Suspend(p, ns, name, on) => {
                let value = if on { json!("true") } else { Value::Null };
                let mark = json!({"metadata": {"annotations": {SUSPENDED: value}}});
                change(rig, p, ns, name, mark);
            }
            Self::Lock(p, ns, name, on) => {
                let vault = rig.projects[p].get("Vault", ns, name);
                if vault.is_some_and(|vault| (vault["spec"]["locked"] == true) != on) {
                    change(rig, p, ns, name, json!({"spec": {"locked": on}}));
                }
            }
            Self::Delete(p, ns, name) => drop(rig.projects[p].delete("Vault", ns, name)),
            Self::DropCopy(wanted) => delete_each(rig, "Vault", |name| name == wanted),
            Self::DropSeal(wanted) => delete_each(rig, "Seal", |name| name == wanted),
            Self::DropPolicies(part) => delete_each(rig, "PropagationPolicy", |name| name.contains(part)),
            Self::DropHubNamespaces => delete_each(rig, "Namespace", |name| name.starts_with("ns-")),
            Self::City(cluster, city) => {
                let labels = json!({"metadata": {"labels": {keys::CITY_CODE: city}}});
                rig.hub.merge(CLUSTER, "", cluster, labels).unwrap();
            }
            Self::Taint(cluster, on) => {
                let taint = json!([{"key": "example.dev/t", "effect": "NoExecute"}]);
                let taints = if on { taint } else { Value::Null };
                rig.hub
                    .merge(CLUSTER, "", cluster, json!({"spec": {"taints": taints}}))
                    .unwrap();
            }
            Self::Ready(cluster, ready) => rig.karmada.ready(cluster, ready),
        }
    }
}

fn vault(namespace: &str, name: &str, city: &str) -> Value {
    json!({"apiVersion": "example.fedgate.dev/v1", "kind": "Vault",
        "metadata": {"name": name, "namespace": namespace, "labels": {keys::CITY_CODE: city}},
        "spec": {"size": 1, "credentials": {"secretName": LOGIN}, "sealName": name}})
}

/// The seal of the vault of this name.
fn seal(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "example.fedgate.dev/v1", "kind": "Seal", "metadata": {"name": name, "namespace": namespace},
        "spec": {"motto": "x", "rings": 1}})
}

/// A change of one that may be gone.
fn change(rig: &Rig, project: &str, namespace: &str, name: &str, patch: Value) {
    let _ = rig.projects[project].merge("Vault", namespace, name, patch);
}

/// Deletes what is on the hub under such names.
fn delete_each(rig: &Rig, kind: &str, wanted: impl Fn(&str) -> bool) {
    for object in rig.hub.list(kind) {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        if wanted(text("name")) {
            // Listed just now; one that ends already goes on ending.
            let _ = rig.hub.delete(kind, text("namespace"), text("name"));
        }
    }
}
