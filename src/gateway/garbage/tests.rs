//! What goes from the hub, judged from what the index holds.

mod bindings;
mod brake;
mod confirm;
mod decisions;

use super::{Garbage, decide::Settings, proven_gone};
use crate::{
    api::{
        keys,
        names::{CityCode, ProjectKey},
    },
    engine::{
        clock::Now,
        key::Key,
        plan::{Next, Plan, Write},
    },
    gateway::world::{Role, World, networking::WorkloadChecks, shape},
    kinds::FederatedKind,
    plane::watch::Event,
};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;

/// The built-in kind, and one more that is like it.
static KINDS: LazyLock<Arc<Vec<FederatedKind>>> = LazyLock::new(|| {
    let first = FederatedKind::builtin().unwrap().remove(0);
    let mut second = first.clone();
    second.resource.group = "example.dev".into();
    second.resource.api_version = "example.dev/v1".into();
    second.resource.kind = "Gadget".into();
    second.resource.plural = "gadgets".into();
    second.write_back = None;
    Arc::new(vec![first, second])
});

const PATIENCE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(600);
const UNUSED: Duration = Duration::from_secs(300);
const SWEEP: Duration = Duration::from_secs(200);
const SETTINGS: Settings = Settings {
    orphan_after: PATIENCE,
    hub_namespace_retention: RETENTION,
    unused_city_set_after: UNUSED,
    sweep_interval: SWEEP,
};
const HUB: &str = "ns-a1";

fn now() -> Now {
    Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    }
}

fn later(now: Now, by: Duration) -> Now {
    Now {
        instant: now.instant + by,
        wall: now.wall + by,
    }
}

fn object(value: &Value) -> Box<DynamicObject> {
    Box::new(serde_json::from_value(value.clone()).unwrap())
}

fn shop() -> ProjectKey {
    ProjectKey::parse("shop").unwrap()
}

fn list_hub(world: &mut World, role: Role, objects: &[Value]) {
    world.hub_event(role, Event::Began);
    for o in objects {
        world.hub_event(role, Event::Listed(object(o)));
    }
    world.hub_event(role, Event::Complete);
}

fn list_project(world: &mut World, role: Role, objects: &[Value]) {
    world.project_event(&shop(), role, Event::Began);
    for o in objects {
        world.project_event(&shop(), role, Event::Listed(object(o)));
    }
    world.project_event(&shop(), role, Event::Complete);
}

fn namespace_object(name: &str, uid: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "uid": uid, "resourceVersion": "5", "labels": labels}})
}

fn hub_namespace_at(name: &str, project_uid: &str, version: &str) -> Value {
    let mut namespace = hub_namespace(name, project_uid);
    namespace["metadata"]["resourceVersion"] = json!(version);
    namespace
}

fn hub_namespace(name: &str, project_uid: &str) -> Value {
    namespace_object(
        name,
        "u-hub",
        &json!({keys::PROJECT_UID: project_uid, keys::UPSTREAM_CLUSTER: "cluster-shop", keys::CITIES: "dfw"}),
    )
}

fn copy_object(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": name, "namespace": HUB, "uid": uid,
        "resourceVersion": "5", "annotations": {keys::SOURCE_UID: "u-source"}}})
}

/// A hub whose lists are complete, with one hub namespace and no project.
fn hub(copies: &[Value]) -> World {
    let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
    for role in world.hub_roles() {
        list_hub(&mut world, role, &[]);
    }
    list_hub(&mut world, Role::Namespaces, &[hub_namespace(HUB, "p1")]);
    list_hub(&mut world, Role::Federated(0), copies);
    world
}

/// Engages the project and completes all its lists; `namespace` is that of [`HUB`].
fn engage(world: &mut World, namespace: bool, sources: &[Value]) {
    world.engage(shop());
    for role in world.project_roles() {
        list_project(world, role, &[]);
    }
    list_project(world, Role::Federated(0), sources);
    let mark = namespace_object("kube-system", "p1", &json!({}));
    let ours = namespace_object("default", "a1", &json!({}));
    let live = if namespace { vec![mark, ours] } else { vec![mark] };
    list_project(world, Role::Namespaces, &live);
}

fn copies(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| copy_object(&format!("c-{n}"), &format!("u-{n}")))
        .collect()
}

fn key(world: &World, kind: usize, name: &str) -> Key {
    world.hub_key(Role::Federated(kind), HUB, name)
}

/// A copy's turn: the UIDs that it deletes, and whether it looks again.
fn turn(garbage: &Garbage, world: &World, kind: usize, name: &str, now: Now) -> (Vec<String>, Next) {
    let plan = garbage.judge_copy(world, &key(world, kind, name), kind, SETTINGS, now);
    let deleted = plan.effects.into_iter().map(|e| match e.write {
        Write::Delete {
            uid,
            resource_version: None,
        } => uid,
        other => panic!("{other:?}"),
    });
    (deleted.collect(), plan.next)
}

#[tokio::test]
async fn before_complete_lists_of_an_engaged_project_absence_proves_nothing() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let at_rest = (vec![], Next::OnEvent);
    let mut world = hub(&copies(1));
    assert_eq!(turn(&garbage, &world, 0, "c-0", now), at_rest, "not engaged");
    world.engage(shop());
    assert_eq!(turn(&garbage, &world, 0, "c-0", now), at_rest, "nothing listed");
    engage(&mut world, true, &[]);
    world.projects.get_mut(&shop()).unwrap().sources[1] = crate::plane::table::Table::default();
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", now),
        at_rest,
        "one list is missing"
    );
    assert_eq!(garbage.waiting(), 0);
    list_project(&mut world, Role::Federated(1), &[]);
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", now),
        (vec![], Next::After(PATIENCE))
    );
    assert_eq!(garbage.waiting(), 1);
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", due),
        (vec!["u-0".into()], Next::OnEvent)
    );
    world.disengage(&shop());
    assert_eq!(turn(&garbage, &world, 0, "c-0", due), at_rest, "it left");
    assert_eq!(garbage.waiting(), 0);
    let mut incomplete = World::new(KINDS.clone(), WorkloadChecks::default());
    engage(&mut incomplete, true, &[]);
    list_hub(
        &mut incomplete,
        Role::Namespaces,
        &[hub_namespace("ns-other", "p1")],
    );
    list_hub(&mut incomplete, Role::Federated(0), &copies(1));
    assert_eq!(
        turn(&garbage, &incomplete, 0, "c-0", due),
        at_rest,
        "lists of the hub are missing"
    );
}

#[tokio::test]
async fn an_origin_of_any_life_keeps_a_copy_until_it_lets_go() {
    let (garbage, now) = (Garbage::default(), now());
    let source = |uid: &str, deleting: bool, finalizer: &str| {
        json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "c-0", "namespace": "default", "uid": uid,
            "resourceVersion": "5", "finalizers": [finalizer],
            "deletionTimestamp": deleting.then_some("2026-05-04T10:00:00Z")}})
    };
    for (source, orphaned) in [
        (source("u-source", false, "x/y"), false),
        (source("u-later", false, "x/y"), false),
        (source("u-source", true, keys::FEDERATOR_FINALIZER), false),
        (source("u-source", true, "x/y"), true),
    ] {
        let mut world = hub(&copies(1));
        engage(&mut world, true, std::slice::from_ref(&source));
        let next = turn(&garbage, &world, 0, "c-0", now).1;
        assert_eq!(next != Next::OnEvent, orphaned, "{source}");
    }
}

#[tokio::test]
async fn the_copies_of_an_earlier_life_are_orphans_though_their_names_live() {
    let (garbage, now) = (Garbage::default(), now());
    let mut world = hub(&copies(1));
    let new = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "c-0", "namespace": "default",
        "uid": "u-later", "resourceVersion": "5"}});
    engage(&mut world, true, &[new]);
    assert_eq!(turn(&garbage, &world, 0, "c-0", now).1, Next::OnEvent);
    list_hub(
        &mut world,
        Role::Namespaces,
        &[hub_namespace_at(HUB, "p-before", "6")],
    );
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", now).1,
        Next::After(PATIENCE),
        "the namespace is another project's"
    );
}

#[tokio::test]
async fn a_namespace_is_proven_gone_only_by_the_project_that_it_is_labelled_with() {
    let mut world = hub(&copies(1));
    assert!(!proven_gone(&world, HUB), "no project is engaged");
    engage(&mut world, false, &[]);
    assert!(proven_gone(&world, HUB));
    let garbage = Garbage::default();
    let next = turn(&garbage, &world, 0, "c-0", now()).1;
    assert_eq!(next, Next::After(PATIENCE), "its copies are orphans");
    list_hub(&mut world, Role::Namespaces, &[hub_namespace("ns-a2", "p2")]);
    assert!(!proven_gone(&world, "ns-a2"), "another project's");
    assert!(!proven_gone(&world, HUB), "no longer there");
    list_hub(
        &mut world,
        Role::Namespaces,
        &[hub_namespace("kube-system", "p1")],
    );
    assert!(!proven_gone(&world, "kube-system"), "no name of ours");
    let mut world = hub(&[]);
    engage(&mut world, true, &[]);
    assert!(!proven_gone(&world, HUB), "it lives");
}

#[tokio::test]
async fn the_brake_ends_with_the_orphans_whoever_removes_them() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let mut world = hub(&copies(12));
    engage(&mut world, true, &[]);
    for n in 0..12 {
        turn(&garbage, &world, 0, &format!("c-{n}"), now);
    }
    assert!(!garbage.brake(), "nothing was due");
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", due),
        (vec![], Next::After(SWEEP))
    );
    assert!(garbage.brake());
    // An operator deletes all but one; the event of each end wakes its key.
    list_hub(&mut world, Role::Federated(0), &copies(1));
    turn(&garbage, &world, 0, "c-11", due);
    assert!(garbage.brake(), "eleven are remembered");
    turn(&garbage, &world, 0, "c-10", due);
    assert!(!garbage.brake(), "ten may go");
    for n in 1..10 {
        turn(&garbage, &world, 0, &format!("c-{n}"), due);
    }
    assert_eq!(garbage.waiting(), 1);
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", due),
        (vec!["u-0".into()], Next::OnEvent)
    );
}

#[tokio::test]
async fn the_brake_counts_every_kind_and_those_whose_turn_has_not_come() {
    let (garbage, now) = (Garbage::default(), now());
    let mut world = hub(&copies(6));
    list_hub(&mut world, Role::Federated(1), &copies(5));
    engage(&mut world, true, &[]);
    turn(&garbage, &world, 0, "c-0", now);
    let due = later(now, PATIENCE);
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", due),
        (vec![], Next::After(SWEEP))
    );
    assert!(garbage.brake());
    turn(&garbage, &world, 1, "c-0", now);
    assert_eq!(
        turn(&garbage, &world, 1, "c-0", due),
        (vec![], Next::After(SWEEP)),
        "one kind's few are not let through"
    );
    assert!(garbage.brake());
    assert_eq!(garbage.waiting(), 2);
}

#[tokio::test]
async fn another_copy_of_the_name_has_its_own_patience() {
    let (garbage, now) = (Garbage::default(), now());
    let mut world = hub(&copies(1));
    engage(&mut world, true, &[]);
    turn(&garbage, &world, 0, "c-0", now);
    list_hub(&mut world, Role::Federated(0), &[copy_object("c-0", "u-new")]);
    let due = later(now, PATIENCE);
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", due),
        (vec![], Next::After(PATIENCE))
    );
    assert_eq!(
        turn(&garbage, &world, 0, "c-0", later(due, PATIENCE)),
        (vec!["u-new".into()], Next::OnEvent)
    );
}

#[tokio::test]
async fn a_namespace_waits_for_what_is_in_it_and_wakes_it() {
    let (garbage, now) = (Garbage::default(), now());
    let mut world = hub(&copies(1));
    engage(&mut world, false, &[]);
    let hub_key = world.hub_key(Role::Namespaces, "", HUB);
    let policies = world.hub_key(Role::CityPolicies, HUB, "");
    let judge = |world: &World, now| garbage.judge_namespace(world, &hub_key, SETTINGS, now);
    let copy = key(&world, 0, "c-0");
    assert_eq!(
        judge(&world, now),
        (Plan::default(), vec![policies.clone(), copy])
    );
    list_hub(&mut world, Role::Federated(0), &[]);
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "c-0-workloaddeployment", "namespace": HUB, "uid": "u-b", "resourceVersion": "5"},
        "spec": {"resource": {"kind": "WorkloadDeployment", "name": "c-0"}}});
    list_hub(&mut world, Role::Bindings, &[binding]);
    assert_eq!(
        judge(&world, now),
        (Plan::default(), vec![policies.clone()]),
        "its binding is still there"
    );
    assert_eq!(garbage.orphans(&world), 1, "and is reported");
    list_hub(&mut world, Role::Bindings, &[]);
    assert_eq!(garbage.orphans(&world), 0);
    assert_eq!(judge(&world, now).0, Plan::wait(Next::After(RETENTION)));
    assert_eq!(
        judge(&world, later(now, RETENTION)).0.effects[0].reason,
        "collect_namespace"
    );
    // The project was restored from a backup; what happens to it later is another story.
    garbage.lives(&hub_key);
    assert_eq!(
        judge(&world, later(now, RETENTION)).0,
        Plan::wait(Next::After(RETENTION))
    );
}

#[tokio::test]
async fn bindings_count_only_without_their_template_and_after_complete_lists() {
    let binding = |kind: &str, name: &str| {
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": format!("{name}-{kind}"), "namespace": HUB, "uid": format!("u-{kind}-{name}"),
                "resourceVersion": "5"},
            "spec": {"resource": {"kind": kind, "name": name}}})
    };
    let bindings = [
        binding("WorkloadDeployment", "c-0"),
        binding("WorkloadDeployment", "c-1"),
        binding("Gadget", "c-0"),
        binding("ConfigMap", "c-1"),
    ];
    let garbage = Garbage::default();
    let mut world = World::new(KINDS.clone(), WorkloadChecks::default());
    list_hub(&mut world, Role::Bindings, &bindings);
    assert_eq!(garbage.orphans(&world), 0);
    let mut world = hub(&copies(1));
    list_hub(&mut world, Role::Bindings, &bindings);
    assert_eq!(garbage.orphans(&world), 3, "one of each kind");
}

#[tokio::test]
async fn only_policies_of_our_shape_whose_set_nobody_carries_are_collected() {
    let (garbage, now) = (Garbage::default(), now());
    let policy = |set: &str, code: &str, label: &str| {
        let cities = BTreeSet::from([CityCode::parse(code).unwrap()]);
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": {"name": format!("cities-{set}"), "uid": "u", "resourceVersion": "7"},
            "spec": shape::city_set_spec(set, &cities, label)})
    };
    let mut theirs = policy("eu", "EU", keys::CITY_CODE);
    theirs["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let mut world = hub(&[]);
    list_hub(
        &mut world,
        Role::CitySets,
        &[
            policy("dfw", "DFW", keys::CITY_CODE),
            policy("lhr", "LHR", keys::CITY_CODE),
            theirs,
            policy("us", "US", "example.dev/region"),
        ],
    );
    let names = [
        "cities-dfw",
        "cities-lhr",
        "cities-eu",
        "cities-us",
        "cities-gone",
    ];
    let judge = |now| {
        names
            .into_iter()
            .flat_map(|name| {
                let key = world.hub_key(Role::CitySets, "", name);
                garbage
                    .judge_city_set(&world, &key, SETTINGS, now)
                    .effects
                    .into_iter()
                    .map(|e| (e.target.name, e.write))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(judge(now), []);
    let gone = Write::Delete {
        uid: "u".into(),
        resource_version: Some("7".into()),
    };
    assert_eq!(judge(later(now, UNUSED)), [("cities-lhr".to_owned(), gone)]);
}
