//! The projector's snapshots from the index, and the keys that events enqueue.

use super::{HUB, KINDS, deployment, projection, write_back};
use crate::{
    index::{GatewayIndex, TableId, networking::WorkloadChecks},
    projector::{decide::Snapshot, observe},
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::plane::watch::WatchEvent;
use serde_json::{Value, json};

/// An index with the project `prod`, its namespace `shop`, and these objects on the hub.
pub(super) fn index(hub_namespace: bool, written: &[Value]) -> GatewayIndex {
    let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    let prod = ProjectKey::parse("prod").unwrap();
    let event =
        |value: &Value| WatchEvent::Apply(serde_json::from_value(value.clone()).map(Box::new).unwrap());
    let namespace = |name: &str, uid: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": "5", "labels": labels}})
    };
    index.engage(prod.clone());
    for own in [
        namespace("kube-system", "p1", json!({})),
        namespace("shop", "6d1f0c52", json!({})),
    ] {
        index.project_event(&prod, TableId::Namespaces, event(&own));
    }
    if hub_namespace {
        let labels = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-prod"});
        index.hub_event(TableId::Namespaces, event(&namespace(HUB, "u-hub", labels)));
    }
    for one in written {
        index.hub_event(TableId::INSTANCES, event(one));
    }
    for table in index.project_tables() {
        index.project_event(&prod, table, WatchEvent::InitDone);
    }
    for table in index.hub_tables() {
        index.hub_event(table, WatchEvent::InitDone);
    }
    index
}

pub(super) fn observed(index: &GatewayIndex, name: &str) -> Snapshot {
    observe(index, &index.hub_key(TableId::INSTANCES, HUB, name)).unwrap()
}

#[test]
fn only_a_hub_namespace_that_carries_the_projects_uid_binds() {
    assert!(observed(&index(true, &[write_back()]), "web-0").is_of_project);
    assert!(!observed(&index(false, &[write_back()]), "web-0").is_of_project);
}

/// A cell's write-back of deployment `web`.
fn named(name: &str, cell: &str) -> Value {
    let mut w = write_back();
    w["metadata"]["name"] = json!(name);
    w["metadata"]["uid"] = json!(format!("u-{name}"));
    w["metadata"]["labels"][keys::CELL] = json!(cell);
    w
}

/// An index with the project's deployment `web`, which may have 80 Instances.
pub(super) fn crowded(written: &[Value]) -> GatewayIndex {
    let mut index = index(true, written);
    let mut source = deployment("u-source");
    source["metadata"]["namespace"] = json!("shop");
    project_event(&mut index, TableId::DEPLOYMENTS, source);
    index
}

pub(super) fn project_event(index: &mut GatewayIndex, table: TableId, value: Value) {
    let event = WatchEvent::Apply(serde_json::from_value(value).map(Box::new).unwrap());
    index.project_event(&ProjectKey::parse("prod").unwrap(), table, event);
}

fn project(index: &mut GatewayIndex, name: &str) {
    let mut p = projection("u-source");
    p["metadata"]["name"] = json!(name);
    p["metadata"]["uid"] = json!(format!("p-{name}"));
    project_event(index, TableId::INSTANCES, p);
}

fn has_place(index: &GatewayIndex, name: &str) -> bool {
    let s = observed(index, name);
    assert_eq!(s.most, 80);
    s.rank < s.most
}

/// The keys that are enqueued when a write-back of cell `greedy` is deleted.
fn woken_without(index: &mut GatewayIndex, name: &str) -> Vec<String> {
    let gone = WatchEvent::Delete(
        serde_json::from_value(named(name, "greedy"))
            .map(Box::new)
            .unwrap(),
    );
    let keys = index.hub_event(TableId::INSTANCES, gone);
    let keys = keys.keys(index);
    let others = keys
        .iter()
        .filter(|key| key.name.starts_with("web-") && &*key.name != name);
    others.map(|key| key.name.to_string()).collect()
}

fn greedy(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| named(&format!("web--{n:03}"), "greedy"))
        .collect()
}

#[test]
fn one_cells_many_names_take_no_place_from_another_cell() {
    let mut written = greedy(100);
    written.extend([named("web-0", "honest"), named("web-1", "honest")]);
    let mut index = crowded(&written);
    assert!(has_place(&index, "web--079") && !has_place(&index, "web--080"));
    for n in 0..80 {
        project(&mut index, &format!("web--{n:03}"));
    }
    assert!(has_place(&index, "web-0") && has_place(&index, "web-1"));
}

#[test]
fn what_is_projected_keeps_its_place() {
    let mut index = crowded(&greedy(100));
    project(&mut index, "web--099");
    assert!(has_place(&index, "web--099") && has_place(&index, "web--078"));
    assert!(!has_place(&index, "web--079"));
    // Another deployment's projection of the name does not count.
    let mut other = projection("u-source");
    other["metadata"]["name"] = json!("web--098");
    other["metadata"]["uid"] = json!("p-other");
    other["metadata"]["ownerReferences"][0]["name"] = json!("other");
    project_event(&mut index, TableId::INSTANCES, other);
    assert!(!has_place(&index, "web--098"));
}

#[test]
fn the_end_of_one_wakes_the_next_and_no_others() {
    let mut index = crowded(&greedy(100));
    for n in 0..80 {
        project(&mut index, &format!("web--{n:03}"));
    }
    assert_eq!(
        woken_without(&mut index, "web--090"),
        Vec::<String>::new(),
        "it had no place"
    );
    assert_eq!(woken_without(&mut index, "web--000"), ["web--080"]);
    assert!(has_place(&index, "web--080") && !has_place(&index, "web--081"));
}

#[test]
fn of_far_too_many_no_new_one_has_a_place() {
    let mut index = crowded(&greedy(162));
    project(&mut index, "web--161");
    assert!(has_place(&index, "web--161"), "it is projected");
    assert!(!has_place(&index, "web--000"));
    // Above the limit none is counted and none enqueued.
    assert_eq!(woken_without(&mut index, "web--160"), Vec::<String>::new());
    let enqueued = woken_without(&mut index, "web--159");
    assert_eq!(enqueued.len(), 79);
    assert!(has_place(&index, "web--000"));
}

#[test]
fn the_cells_are_those_of_the_copys_own_binding_and_their_change_wakes() {
    let mut index = index(true, &[write_back()]);
    let event = |value: Value| WatchEvent::Apply(serde_json::from_value(value).map(Box::new).unwrap());
    let mut copy = deployment("u-copy");
    copy["metadata"]["namespace"] = json!(HUB);
    index.hub_event(TableId::DEPLOYMENTS, event(copy));
    let binding = |version: u32, owner: &str| {
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web-workloaddeployment", "namespace": HUB, "uid": "u-b",
                "resourceVersion": version.to_string(),
                "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "web", "uid": owner}]},
            "spec": {"resource": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web"},
                "clusters": [{"name": "dfw-1"}]}})
    };
    index.hub_event(TableId::Bindings, event(binding(7, "u-earlier")));
    assert!(observed(&index, "web-0").cells.is_empty());
    let enqueued = index.hub_event(TableId::Bindings, event(binding(8, "u-copy")));
    let key = index.hub_key(TableId::INSTANCES, HUB, "web-0");
    assert!(enqueued.keys(&index).contains(&key));
    assert_eq!(*observed(&index, "web-0").cells, ["dfw-1".into()]);
    // Without a change nothing is enqueued.
    let enqueued = index.hub_event(TableId::Bindings, event(binding(9, "u-copy")));
    assert!(!enqueued.keys(&index).contains(&key));
}

#[test]
fn the_end_of_one_wakes_the_next_also_where_as_many_are_left_as_always_have_a_place() {
    let mut index = index(true, &greedy(65));
    let mut source = deployment("u-source");
    source["metadata"]["namespace"] = json!("shop");
    source["spec"]["scaleSettings"]["minReplicas"] = json!(1);
    project_event(&mut index, TableId::DEPLOYMENTS, source);
    for n in 0..64 {
        project(&mut index, &format!("web--{n:03}"));
    }
    let s = observed(&index, "web--064");
    assert_eq!((s.most, s.rank), (64, 64), "it has no place");
    assert_eq!(woken_without(&mut index, "web--000"), ["web--064"]);
    assert!(observed(&index, "web--064").rank < 64);
}
