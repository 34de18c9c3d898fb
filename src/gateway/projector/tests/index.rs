//! What the projector sees in the index, and what wakes it.

use super::{HUB, KINDS, deployment, projection, write_back};
use crate::{
    api::{keys, names::ProjectKey},
    gateway::{
        projector::{decide::Snapshot, observe},
        world::{Role, World, networking::WorkloadChecks},
    },
    plane::watch::Event,
};
use serde_json::{Value, json};

/// An index with the project `prod`, its namespace `shop`, and this on the hub.
fn world(hub_namespace: bool, written: &[Value]) -> World {
    let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
    let prod = ProjectKey::parse("prod").unwrap();
    let event = |value: &Value| Event::Applied(serde_json::from_value(value.clone()).map(Box::new).unwrap());
    let namespace = |name: &str, uid: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": "5", "labels": labels}})
    };
    world.engage(prod.clone());
    for own in [
        namespace("kube-system", "p1", json!({})),
        namespace("shop", "6d1f0c52", json!({})),
    ] {
        world.project_event(&prod, Role::Namespaces, event(&own));
    }
    if hub_namespace {
        let labels = json!({keys::PROJECT_UID: "p1", keys::UPSTREAM_CLUSTER: "cluster-prod"});
        world.hub_event(Role::Namespaces, event(&namespace(HUB, "u-hub", labels)));
    }
    for one in written {
        world.hub_event(Role::WrittenBack(0), event(one));
    }
    for role in world.project_roles() {
        world.project_event(&prod, role, Event::Complete);
    }
    for role in world.hub_roles() {
        world.hub_event(role, Event::Complete);
    }
    world
}

fn observed(world: &World, name: &str) -> Snapshot {
    observe(world, &world.hub_key(Role::WrittenBack(0), HUB, name)).unwrap()
}

#[test]
fn only_a_hub_namespace_that_carries_the_projects_uid_binds() {
    assert!(observed(&world(true, &[write_back()]), "web-0").bound);
    assert!(!observed(&world(false, &[write_back()]), "web-0").bound);
}

/// What a cell writes of deployment `web`.
fn named(name: &str, cell: &str) -> Value {
    let mut w = write_back();
    w["metadata"]["name"] = json!(name);
    w["metadata"]["uid"] = json!(format!("u-{name}"));
    w["metadata"]["labels"][keys::CELL] = json!(cell);
    w
}

/// The same index with the project's deployment `web`, which may have 80 Instances.
fn crowded(written: &[Value]) -> World {
    let mut world = world(true, written);
    let mut source = deployment("u-source");
    source["metadata"]["namespace"] = json!("shop");
    project_event(&mut world, Role::Federated(0), source);
    world
}

fn project_event(world: &mut World, role: Role, value: Value) {
    let event = Event::Applied(serde_json::from_value(value).map(Box::new).unwrap());
    world.project_event(&ProjectKey::parse("prod").unwrap(), role, event);
}

fn project(world: &mut World, name: &str) {
    let mut p = projection("u-source");
    p["metadata"]["name"] = json!(name);
    p["metadata"]["uid"] = json!(format!("p-{name}"));
    project_event(world, Role::WrittenBack(0), p);
}

fn has_place(world: &World, name: &str) -> bool {
    let s = observed(world, name);
    assert_eq!(s.most, 80);
    s.rank < s.most
}

/// Who is woken when one of cell `greedy` goes.
fn woken_without(world: &mut World, name: &str) -> Vec<String> {
    let gone = Event::Deleted(
        serde_json::from_value(named(name, "greedy"))
            .map(Box::new)
            .unwrap(),
    );
    let keys = world.hub_event(Role::WrittenBack(0), gone).keys;
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
    let mut world = crowded(&written);
    assert!(has_place(&world, "web--079") && !has_place(&world, "web--080"));
    for n in 0..80 {
        project(&mut world, &format!("web--{n:03}"));
    }
    assert!(has_place(&world, "web-0") && has_place(&world, "web-1"));
}

#[test]
fn what_is_projected_keeps_its_place() {
    let mut world = crowded(&greedy(100));
    project(&mut world, "web--099");
    assert!(has_place(&world, "web--099") && has_place(&world, "web--078"));
    assert!(!has_place(&world, "web--079"));
    // Another deployment's projection of the name is none.
    let mut other = projection("u-source");
    other["metadata"]["name"] = json!("web--098");
    other["metadata"]["uid"] = json!("p-other");
    other["metadata"]["ownerReferences"][0]["name"] = json!("other");
    project_event(&mut world, Role::WrittenBack(0), other);
    assert!(!has_place(&world, "web--098"));
}

#[test]
fn the_end_of_one_wakes_the_next_and_no_others() {
    let mut world = crowded(&greedy(100));
    for n in 0..80 {
        project(&mut world, &format!("web--{n:03}"));
    }
    assert_eq!(
        woken_without(&mut world, "web--090"),
        Vec::<String>::new(),
        "it had no place"
    );
    assert_eq!(woken_without(&mut world, "web--000"), ["web--080"]);
    assert!(has_place(&world, "web--080") && !has_place(&world, "web--081"));
}

#[test]
fn of_far_too_many_no_new_one_has_a_place() {
    let mut world = crowded(&greedy(162));
    project(&mut world, "web--161");
    assert!(has_place(&world, "web--161"), "it is projected");
    assert!(!has_place(&world, "web--000"));
    // None is counted, and none woken, before they are fewer.
    assert_eq!(woken_without(&mut world, "web--160"), Vec::<String>::new());
    let woken = woken_without(&mut world, "web--159");
    assert_eq!(woken.len(), 79);
    assert!(has_place(&world, "web--000"));
}

#[test]
fn the_cells_are_those_of_the_copys_own_binding_and_their_change_wakes() {
    let mut world = world(true, &[write_back()]);
    let event = |value: Value| Event::Applied(serde_json::from_value(value).map(Box::new).unwrap());
    let mut copy = deployment("u-copy");
    copy["metadata"]["namespace"] = json!(HUB);
    world.hub_event(Role::Federated(0), event(copy));
    let binding = |version: u32, owner: &str| {
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "web-workloaddeployment", "namespace": HUB, "uid": "u-b",
                "resourceVersion": version.to_string(),
                "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "web", "uid": owner}]},
            "spec": {"resource": {"kind": "WorkloadDeployment", "name": "web"},
                "clusters": [{"name": "dfw-1"}]}})
    };
    world.hub_event(Role::Bindings, event(binding(7, "u-earlier")));
    assert!(observed(&world, "web-0").cells.is_empty());
    let woken = world.hub_event(Role::Bindings, event(binding(8, "u-copy")));
    let key = world.hub_key(Role::WrittenBack(0), HUB, "web-0");
    assert!(woken.keys.contains(&key));
    assert_eq!(*observed(&world, "web-0").cells, ["dfw-1".into()]);
    // At rest nobody is woken.
    let woken = world.hub_event(Role::Bindings, event(binding(9, "u-copy")));
    assert!(!woken.keys.contains(&key));
}

#[test]
fn the_end_of_one_wakes_the_next_also_where_as_many_are_left_as_always_have_a_place() {
    let mut world = world(true, &greedy(65));
    let mut source = deployment("u-source");
    source["metadata"]["namespace"] = json!("shop");
    source["spec"]["scaleSettings"]["minReplicas"] = json!(1);
    project_event(&mut world, Role::Federated(0), source);
    for n in 0..64 {
        project(&mut world, &format!("web--{n:03}"));
    }
    let s = observed(&world, "web--064");
    assert_eq!((s.most, s.rank), (64, 64), "it has no place");
    assert_eq!(woken_without(&mut world, "web--000"), ["web--064"]);
    assert!(observed(&world, "web--064").rank < 64);
}
