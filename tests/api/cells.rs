//! The rules of Cells on a real API server (contract: provisioning.md §10.1, machines.md §1.2).

use crate::{
    admission::wait_until,
    plane::{object, verdict},
};
use anyhow::Result;
use fedgate_api::{cell::Cell, crd};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde_json::{Value, json};

const HOST_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKY4";

fn machine(number: u8, role: &str) -> Value {
    json!({"name": format!("m{number}"), "role": role, "address": format!("192.0.2.{number}"), "hostKey": HOST_KEY})
}

fn existing() -> Value {
    json!({"apiVersion": "fedgate.dev/v1alpha1", "kind": "Cell", "metadata": {"name": "dfw-2"},
        "spec": {"city": "DFW", "provider": {"existing": {"kubeconfigSecret": "dfw-2-admin"}}}})
}

/// A Cell of one control plane and a worker.
fn hosts() -> Value {
    json!({"apiVersion": "fedgate.dev/v1alpha1", "kind": "Cell", "metadata": {"name": "dfw-3"},
        "spec": {"city": "DFW", "kubernetes": {"version": "v1.36.3"},
            "provider": {"hosts": {"sshKeySecret": "dfw-3-ssh", "machines": [machine(1, "controlPlane"), machine(2, "worker")]}}}})
}

/// A Cell whose Cluster of Cluster API the provisioner creates.
fn cluster_api() -> Value {
    json!({"apiVersion": "fedgate.dev/v1alpha1", "kind": "Cell", "metadata": {"name": "dfw-4"},
        "spec": {"city": "DFW", "provider": {"clusterAPI": {"namespace": "capi", "topology": topology(1)}}}})
}

fn topology(workers: u8) -> Value {
    let workers = json!({"machineDeployments": [{"class": "default", "name": "a", "replicas": workers}]});
    json!({"classRef": {"name": "edge"}, "version": "v1.36.3", "workers": workers, "variables": [{"name": "x", "value": {"y": [1]}}]})
}

/// The Cell with another value at a path; a null removes.
fn with(mut cell: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = cell.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        _ if value.is_null() => drop(parent.as_object_mut().unwrap().remove(key)),
        parent => parent[key] = value,
    }
    cell
}

const MACHINES: &str = "/spec/provider/hosts/machines";

/// The rule, or what it is; a Cell, or a patch; and a part of the answer.
type Case = (&'static str, Value, &'static str);

/// Cells that the hub refuses.
fn refused() -> Vec<Case> {
    let three = json!([
        machine(1, "controlPlane"),
        machine(2, "controlPlane"),
        machine(3, "controlPlane"),
        machine(4, "worker")
    ]);
    vec![
        (
            "C1",
            with(existing(), "/metadata/name", json!("d".repeat(49))),
            "at most 48",
        ),
        (
            "C1",
            with(existing(), "/metadata/name", json!("dfw.2")),
            "at most 48",
        ),
        ("C2", with(existing(), "/spec/city", json!("D W")), "spec.city"),
        (
            "C3",
            with(existing(), "/spec/provider", json!({})),
            "spec.provider",
        ),
        (
            "C3",
            with(
                hosts(),
                "/spec/provider/existing",
                json!({"kubeconfigSecret": "x"}),
            ),
            "spec.provider",
        ),
        (
            "C4",
            with(hosts(), "/spec/kubernetes", Value::Null),
            "kubernetes belongs to provider hosts",
        ),
        (
            "C4",
            with(existing(), "/spec/kubernetes", json!({"version": "v1.36.3"})),
            "kubernetes belongs to provider hosts",
        ),
        (
            "C8",
            with(hosts(), "/spec/kubernetes/version", json!("v1.30.0")),
            "version",
        ),
        (
            "C8",
            with(hosts(), "/spec/kubernetes/version", json!("v1.36.3; id")),
            "version",
        ),
        (
            "C8",
            with(hosts(), "/spec/kubernetes/podCIDR", json!("10.0.0.0/33")),
            "podCIDR",
        ),
        (
            "C8",
            with(hosts(), "/spec/kubernetes/endpoint", json!({"type": "External"})),
            "type External needs it",
        ),
        (
            "C8",
            with(
                hosts(),
                "/spec/kubernetes/endpoint",
                json!({"type": "HAProxy", "address": "x:6443"}),
            ),
            "type External needs it",
        ),
        (
            "C8",
            with(hosts(), MACHINES, three),
            "needs type External or HAProxy",
        ),
        (
            "C10",
            with(existing(), "/spec/register", json!({"proxy": true})),
            "proxy needs",
        ),
        (
            "C10",
            with(existing(), "/spec/register", json!({"mode": "Pull"})),
            "agentImage",
        ),
        (
            "C10",
            with(existing(), "/spec/agent", json!({"location": "x"})),
            "location needs image",
        ),
    ]
}

/// Cells of Cluster API that the hub refuses.
fn refused_of_cluster_api() -> Vec<Case> {
    vec![
        (
            "C5",
            with(cluster_api(), "/spec/provider/clusterAPI/topology", Value::Null),
            "give either cluster",
        ),
        (
            "C5",
            with(cluster_api(), "/spec/provider/clusterAPI/cluster", json!("dfw-4")),
            "give either cluster",
        ),
        (
            "C5",
            with(
                cluster_api(),
                "/spec/provider/clusterAPI",
                json!({"namespace": "capi", "cluster": "dfw-4", "clusterNetwork": {}}),
            ),
            "clusterNetwork belongs to topology",
        ),
    ]
}

/// Lists of machines that the hub refuses.
fn refused_lists() -> Vec<Case> {
    let machine_with = |field: &str, value: Value| with(hosts(), &format!("{MACHINES}/1/{field}"), value);
    vec![
        (
            "C6",
            with(hosts(), MACHINES, json!([machine(1, "controlPlane")])),
            "machines",
        ),
        (
            "C6",
            with(
                hosts(),
                MACHINES,
                json!([
                    machine(1, "controlPlane"),
                    machine(2, "controlPlane"),
                    machine(3, "worker")
                ]),
            ),
            "1, 3 or 5",
        ),
        (
            "C6",
            with(
                hosts(),
                MACHINES,
                json!([machine(1, "worker"), machine(2, "controlPlane")]),
            ),
            "the first machine",
        ),
        (
            "C6",
            machine_with("nodeAddress", json!("192.0.2.1")),
            "same nodeAddress",
        ),
        (
            "C6",
            machine_with("address", json!("192.0.2.1")),
            "same address and port",
        ),
        ("C6", machine_with("name", json!("m1")), "Duplicate value"),
    ]
}

/// Fields of machines that the hub refuses.
fn refused_fields() -> Vec<Case> {
    let machine_with = |field: &str, value: Value| with(hosts(), &format!("{MACHINES}/1/{field}"), value);
    vec![
        (
            "C7",
            machine_with("address", json!("-oProxyCommand=x")),
            "address",
        ),
        ("C7", machine_with("address", json!("a b")), "address"),
        (
            "C7",
            machine_with("address", json!("cp1.example.com")),
            "a machine needs an IP address",
        ),
        (
            "C7",
            machine_with("nodeAddress", json!("10.0.0.256")),
            "a machine needs an IP address",
        ),
        ("C7", machine_with("user", json!("ops$(id)")), "user"),
        ("C7", machine_with("user", json!("-l")), "user"),
        (
            "C7",
            machine_with("hostKey", json!("ssh-ed25519 AAAA\nx ssh-rsa BBBB")),
            "hostKey",
        ),
        ("C7", machine_with("name", json!("m'2")), "name"),
        ("C7", machine_with("port", json!(0)), "port"),
    ]
}

/// Changes of an existing Cell of machines. The answer is 200 if the change is allowed.
fn changes() -> Vec<Case> {
    let machines = |all: &[Value]| json!({"spec": {"provider": {"hosts": {"machines": all}}}});
    let (leader, worker) = (machine(1, "controlPlane"), machine(2, "worker"));
    let mut moved = worker.clone();
    moved["address"] = json!("192.0.2.77");
    let mut readdressed = leader.clone();
    readdressed["nodeAddress"] = json!("10.0.0.1");
    vec![
        (
            "another city",
            json!({"spec": {"city": "LHR"}}),
            "cannot change its city",
        ),
        (
            "another provider",
            json!({"spec": {"kubernetes": null, "provider": {"hosts": null, "existing": {"kubeconfigSecret": "x"}}}}),
            "the kind of its provider",
        ),
        (
            "another version",
            json!({"spec": {"kubernetes": {"version": "v1.36.4"}}}),
            "makes a cluster once",
        ),
        (
            "another endpoint",
            json!({"spec": {"kubernetes": {"endpoint": {"type": "HAProxy"}}}}),
            "makes a cluster once",
        ),
        (
            "a worker less",
            machines(&[leader.clone(), machine(3, "worker")]),
            "cannot be removed",
        ),
        (
            "a control plane more",
            machines(&[
                leader.clone(),
                machine(3, "controlPlane"),
                machine(4, "controlPlane"),
                worker.clone(),
            ]),
            "cannot be added",
        ),
        (
            "another leader",
            machines(&[machine(3, "controlPlane"), leader.clone(), worker.clone()]),
            "machines",
        ),
        (
            "a worker more",
            machines(&[leader.clone(), machine(3, "worker"), worker]),
            "200",
        ),
        (
            "a corrected address",
            machines(&[leader, moved, machine(3, "worker")]),
            "200",
        ),
        (
            "a network",
            json!({"spec": {"kubernetes": {"cniManifest": "cilium"}}}),
            "200",
        ),
        (
            "no network",
            json!({"spec": {"kubernetes": {"cniManifest": null}}}),
            "removes nothing of it",
        ),
        (
            "another network",
            json!({"spec": {"kubernetes": {"cniManifest": "flannel"}}}),
            "makes a cluster once",
        ),
        (
            "another address of the first machine",
            json!({"spec": {"provider": {"hosts": {"machines": [readdressed, machine(2, "worker"), machine(3, "worker")]}}}}),
            "in the certificates",
        ),
        ("another state", json!({"spec": {"state": "Cordoned"}}), "200"),
    ]
}

/// Changes of an existing Cell of Cluster API.
fn changes_of_cluster_api() -> Vec<Case> {
    let of = |fields: Value| json!({"spec": {"provider": {"clusterAPI": fields}}});
    vec![
        (
            "another namespace",
            of(json!({"namespace": "other"})),
            "cannot change to another cluster",
        ),
        (
            "another cluster",
            of(json!({"topology": null, "cluster": "dfw-4"})),
            "cannot change to another cluster",
        ),
        (
            "existing",
            json!({"spec": {"provider": {"clusterAPI": null, "existing": {"kubeconfigSecret": "x"}}}}),
            "the kind of its provider",
        ),
        ("a worker more", of(json!({"topology": topology(2)})), "200"),
    ]
}

/// Each rule refuses the Cell that breaks it, and says why.
pub(crate) async fn rules_of_cells_hold(hub: &Client) -> Result<()> {
    let crds = kube::core::GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let crds: Api<DynamicObject> = Api::all_with(hub.clone(), &ApiResource::from_gvk(&crds));
    crds.create(&PostParams::default(), &object(crd::cell()?)).await?;
    let cells: Api<DynamicObject> = Api::all_with(hub.clone(), &ApiResource::erase::<Cell>(&()));
    wait_until(|| async { cells.list(&ListParams::default()).await.is_ok() }).await;
    for cell in [existing(), hosts(), cluster_api()] {
        assert_eq!(
            verdict(cells.create(&PostParams::default(), &object(cell)).await),
            "200"
        );
    }
    let made = cells.get("dfw-3").await?.data;
    assert_eq!(made["spec"]["kubernetes"]["endpoint"], json!({"type": "Leader"}));
    assert_eq!(made["spec"]["provider"]["hosts"]["machines"][0]["port"], 22);
    let made = cells.get("dfw-4").await?.data;
    assert_eq!(made["spec"]["provider"]["clusterAPI"]["topology"], topology(1));
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    for (rule, mut cell, word) in [
        refused(),
        refused_of_cluster_api(),
        refused_lists(),
        refused_fields(),
    ]
    .concat()
    {
        let name = &mut cell["metadata"]["name"];
        if ["dfw-2", "dfw-3", "dfw-4"].contains(&name.as_str().unwrap()) {
            *name = json!("new");
        }
        let answer = verdict(cells.create(&dry, &object(cell)).await);
        assert!(
            answer.contains("422") || answer.contains("invalid"),
            "{rule}: {answer}"
        );
        assert!(answer.contains(word), "{rule}: {answer}");
    }
    for (cell, changes) in [("dfw-3", changes()), ("dfw-4", changes_of_cluster_api())] {
        for (what, patch, word) in changes {
            let changed = cells
                .patch(cell, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            let answer = verdict(changed);
            assert!(answer.contains(word), "{cell}, {what}: {answer}");
        }
    }
    Ok(())
}
