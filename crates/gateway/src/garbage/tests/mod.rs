//! Tests of the garbage collector on an index.

mod bindings;
mod brake;
mod confirm;
mod decisions;

use super::Garbage;
use crate::queries::lifecycle::proven_gone;
use crate::{
    index::{GatewayIndex, TableId, networking::WorkloadChecks},
    policy_spec,
    settings::Settings,
    testing,
};
use fedgate_api::{
    keys,
    names::{CityCode, ProjectKey},
};
use fedgate_engine::{
    clock::Now,
    key::Key,
    plan::{Plan, Requeue, Write},
    plane::watch::WatchEvent,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;

/// The built-in kind, and a second kind like it.
static KINDS: LazyLock<Arc<PerKind<FederatedKind>>> = LazyLock::new(|| {
    let first = FederatedKind::builtin().unwrap().remove(0);
    let mut second = first.clone();
    second.resource.group = "example.dev".into();
    second.resource.api_version = "example.dev/v1".into();
    second.resource.kind = "Gadget".into();
    second.resource.plural = "gadgets".into();
    second.write_back = None;
    Arc::new(vec![first, second].into())
});

const PATIENCE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(600);
const UNUSED: Duration = Duration::from_secs(300);
const SWEEP: Duration = Duration::from_secs(200);
const HUB: &str = "ns-a1";

impl Garbage {
    pub(crate) fn brake(&self) -> bool {
        !self.brakes().is_empty()
    }
}

fn settings() -> Settings {
    Settings {
        orphan_after: PATIENCE,
        hub_namespace_retention: RETENTION,
        unused_city_set_after: UNUSED,
        sweep_interval: SWEEP,
        ..testing::settings()
    }
}

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

fn list_hub(index: &mut GatewayIndex, table: TableId, objects: &[Value]) {
    index.hub_event(table, WatchEvent::Init);
    for o in objects {
        index.hub_event(table, WatchEvent::InitApply(object(o)));
    }
    index.hub_event(table, WatchEvent::InitDone);
}

fn list_project(index: &mut GatewayIndex, table: TableId, objects: &[Value]) {
    index.project_event(&shop(), table, WatchEvent::Init);
    for o in objects {
        index.project_event(&shop(), table, WatchEvent::InitApply(object(o)));
    }
    index.project_event(&shop(), table, WatchEvent::InitDone);
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
fn hub(copies: &[Value]) -> GatewayIndex {
    let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    for table in index.hub_tables() {
        list_hub(&mut index, table, &[]);
    }
    list_hub(&mut index, TableId::Namespaces, &[hub_namespace(HUB, "p1")]);
    list_hub(&mut index, TableId::DEPLOYMENTS, copies);
    index
}

/// Engages the project and completes all its lists; `namespace` adds the project namespace that owns [`HUB`].
fn engage(index: &mut GatewayIndex, namespace: bool, sources: &[Value]) {
    index.engage(shop());
    for table in index.project_tables() {
        list_project(index, table, &[]);
    }
    list_project(index, TableId::DEPLOYMENTS, sources);
    let mark = namespace_object("kube-system", "p1", &json!({}));
    let ours = namespace_object("default", "a1", &json!({}));
    let live = if namespace { vec![mark, ours] } else { vec![mark] };
    list_project(index, TableId::Namespaces, &live);
}

fn copies(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| copy_object(&format!("c-{n}"), &format!("u-{n}")))
        .collect()
}

fn key(index: &GatewayIndex, kind: KindId, name: &str) -> Key {
    index.hub_key(TableId::Federated(kind), HUB, name)
}

/// Reconciles a copy: the UIDs that are deleted, and the requeue.
fn reconcile_once(
    garbage: &Garbage,
    index: &GatewayIndex,
    kind: KindId,
    name: &str,
    now: Now,
) -> (Vec<String>, Requeue) {
    let plan = garbage.decide_copy(index, &key(index, kind, name), kind, &settings(), now);
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
    let at_rest = (vec![], Requeue::AwaitChange);
    let mut index = hub(&copies(1));
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now),
        at_rest,
        "not engaged"
    );
    index.engage(shop());
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now),
        at_rest,
        "nothing listed"
    );
    engage(&mut index, true, &[]);
    index.projects.get_mut(&shop()).unwrap().sources[KindId::nth(1)] =
        fedgate_engine::store::table::Table::default();
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now),
        at_rest,
        "one list is missing"
    );
    assert_eq!(garbage.waiting(), 0);
    list_project(&mut index, TableId::Federated(KindId::nth(1)), &[]);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now),
        (vec![], Requeue::After(PATIENCE))
    );
    assert_eq!(garbage.waiting(), 1);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        (vec!["u-0".into()], Requeue::AwaitChange)
    );
    index.disengage(&shop());
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        at_rest,
        "it left"
    );
    assert_eq!(garbage.waiting(), 0);
    let mut incomplete = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    engage(&mut incomplete, true, &[]);
    list_hub(
        &mut incomplete,
        TableId::Namespaces,
        &[hub_namespace("ns-other", "p1")],
    );
    list_hub(&mut incomplete, TableId::DEPLOYMENTS, &copies(1));
    assert_eq!(
        reconcile_once(&garbage, &incomplete, KindId::FIRST, "c-0", due),
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
        let mut index = hub(&copies(1));
        engage(&mut index, true, std::slice::from_ref(&source));
        let next = reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now).1;
        assert_eq!(next != Requeue::AwaitChange, orphaned, "{source}");
    }
}

#[tokio::test]
async fn the_copies_of_an_earlier_life_are_orphans_though_their_names_live() {
    let (garbage, now) = (Garbage::default(), now());
    let mut index = hub(&copies(1));
    let new = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "c-0", "namespace": "default",
        "uid": "u-later", "resourceVersion": "5"}});
    engage(&mut index, true, &[new]);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now).1,
        Requeue::AwaitChange
    );
    list_hub(
        &mut index,
        TableId::Namespaces,
        &[hub_namespace_at(HUB, "p-before", "6")],
    );
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now).1,
        Requeue::After(PATIENCE),
        "the namespace is another project's"
    );
}

#[tokio::test]
async fn a_namespace_is_proven_gone_only_by_the_project_that_it_is_labelled_with() {
    let mut index = hub(&copies(1));
    assert!(!proven_gone(&index, HUB), "no project is engaged");
    engage(&mut index, false, &[]);
    assert!(proven_gone(&index, HUB));
    let garbage = Garbage::default();
    let next = reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now()).1;
    assert_eq!(next, Requeue::After(PATIENCE), "its copies are orphans");
    list_hub(&mut index, TableId::Namespaces, &[hub_namespace("ns-a2", "p2")]);
    assert!(!proven_gone(&index, "ns-a2"), "another project's");
    assert!(!proven_gone(&index, HUB), "no longer there");
    list_hub(
        &mut index,
        TableId::Namespaces,
        &[hub_namespace("kube-system", "p1")],
    );
    assert!(!proven_gone(&index, "kube-system"), "no name of ours");
    let mut index = hub(&[]);
    engage(&mut index, true, &[]);
    assert!(!proven_gone(&index, HUB), "it lives");
}

#[tokio::test]
async fn the_brake_ends_with_the_orphans_whoever_removes_them() {
    let (garbage, now) = (Garbage::default(), now());
    let due = later(now, PATIENCE);
    let mut index = hub(&copies(12));
    engage(&mut index, true, &[]);
    for n in 0..12 {
        reconcile_once(&garbage, &index, KindId::FIRST, &format!("c-{n}"), now);
    }
    assert!(!garbage.brake(), "nothing was due");
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        (vec![], Requeue::After(SWEEP))
    );
    assert!(garbage.brake());
    // An operator deletes all copies but one; each delete event enqueues its key.
    list_hub(&mut index, TableId::DEPLOYMENTS, &copies(1));
    reconcile_once(&garbage, &index, KindId::FIRST, "c-11", due);
    assert!(garbage.brake(), "eleven are remembered");
    reconcile_once(&garbage, &index, KindId::FIRST, "c-10", due);
    assert!(!garbage.brake(), "ten may go");
    for n in 1..10 {
        reconcile_once(&garbage, &index, KindId::FIRST, &format!("c-{n}"), due);
    }
    assert_eq!(garbage.waiting(), 1);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        (vec!["u-0".into()], Requeue::AwaitChange)
    );
}

#[tokio::test]
async fn the_brake_counts_every_kind_and_those_whose_turn_has_not_come() {
    let (garbage, now) = (Garbage::default(), now());
    let mut index = hub(&copies(6));
    list_hub(&mut index, TableId::Federated(KindId::nth(1)), &copies(5));
    engage(&mut index, true, &[]);
    reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now);
    let due = later(now, PATIENCE);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        (vec![], Requeue::After(SWEEP))
    );
    assert!(garbage.brake());
    reconcile_once(&garbage, &index, KindId::nth(1), "c-0", now);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::nth(1), "c-0", due),
        (vec![], Requeue::After(SWEEP)),
        "one kind's few are not let through"
    );
    assert!(garbage.brake());
    assert_eq!(garbage.waiting(), 2);
}

#[tokio::test]
async fn another_copy_of_the_name_has_its_own_patience() {
    let (garbage, now) = (Garbage::default(), now());
    let mut index = hub(&copies(1));
    engage(&mut index, true, &[]);
    reconcile_once(&garbage, &index, KindId::FIRST, "c-0", now);
    list_hub(&mut index, TableId::DEPLOYMENTS, &[copy_object("c-0", "u-new")]);
    let due = later(now, PATIENCE);
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", due),
        (vec![], Requeue::After(PATIENCE))
    );
    assert_eq!(
        reconcile_once(&garbage, &index, KindId::FIRST, "c-0", later(due, PATIENCE)),
        (vec!["u-new".into()], Requeue::AwaitChange)
    );
}

#[tokio::test]
async fn a_namespace_waits_for_what_is_in_it_and_wakes_it() {
    let (garbage, now) = (Garbage::default(), now());
    let mut index = hub(&copies(1));
    engage(&mut index, false, &[]);
    let hub_key = index.hub_key(TableId::Namespaces, "", HUB);
    let policies = index.hub_key(TableId::CityPolicies, HUB, "");
    let judge = |index: &GatewayIndex, now| garbage.decide_namespace(index, &hub_key, &settings(), now);
    let copy = key(&index, KindId::FIRST, "c-0");
    assert_eq!(
        judge(&index, now),
        (Plan::default(), vec![policies.clone(), copy])
    );
    list_hub(&mut index, TableId::DEPLOYMENTS, &[]);
    let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "c-0-workloaddeployment", "namespace": HUB, "uid": "u-b", "resourceVersion": "5"},
        "spec": {"resource": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "c-0"}}});
    list_hub(&mut index, TableId::Bindings, &[binding]);
    assert_eq!(
        judge(&index, now),
        (Plan::default(), vec![policies.clone()]),
        "its binding is still there"
    );
    assert_eq!(garbage.orphans(&index), 1, "and is reported");
    list_hub(&mut index, TableId::Bindings, &[]);
    assert_eq!(garbage.orphans(&index), 0);
    assert_eq!(judge(&index, now).0, Plan::wait(Requeue::After(RETENTION)));
    assert_eq!(
        judge(&index, later(now, RETENTION)).0.effects[0].reason.label(),
        "collect_namespace"
    );
    // The project was restored from a backup; a later loss starts a new retention.
    garbage.lives(&hub_key);
    assert_eq!(
        judge(&index, later(now, RETENTION)).0,
        Plan::wait(Requeue::After(RETENTION))
    );
}

#[tokio::test]
async fn bindings_count_only_without_their_template_and_after_complete_lists() {
    let binding = |kind: &str, name: &str| {
        json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": format!("{name}-{kind}"), "namespace": HUB, "uid": format!("u-{kind}-{name}"),
                "resourceVersion": "5"},
            "spec": {"resource": {"apiVersion": bindings::version_of(kind), "kind": kind, "name": name}}})
    };
    let bindings = [
        binding("WorkloadDeployment", "c-0"),
        binding("WorkloadDeployment", "c-1"),
        binding("Gadget", "c-0"),
        binding("ConfigMap", "c-1"),
    ];
    let garbage = Garbage::default();
    let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    list_hub(&mut index, TableId::Bindings, &bindings);
    assert_eq!(garbage.orphans(&index), 0);
    let mut index = hub(&copies(1));
    list_hub(&mut index, TableId::Bindings, &bindings);
    assert_eq!(garbage.orphans(&index), 3, "one of each kind");
}

#[tokio::test]
async fn only_policies_of_our_shape_whose_set_nobody_carries_are_collected() {
    let (garbage, now) = (Garbage::default(), now());
    let policy = |set: &str, code: &str, label: &str| {
        let cities = BTreeSet::from([CityCode::parse(code).unwrap()]);
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": {"name": format!("cities-{set}"), "uid": "u", "resourceVersion": "7"},
            "spec": policy_spec::city_set_spec(set, &cities, label)})
    };
    let mut theirs = policy("eu", "EU", keys::CITY_CODE);
    theirs["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let mut index = hub(&[]);
    list_hub(
        &mut index,
        TableId::CitySets,
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
                let key = index.hub_key(TableId::CitySets, "", name);
                garbage
                    .decide_city_set(&index, &key, &settings(), now)
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
