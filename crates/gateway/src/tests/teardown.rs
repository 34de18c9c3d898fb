//! Teardown of deleted Projects: by the hub's labels alone, only with proof, and never of too many at once.

use crate::{
    Gateway,
    federator::observe::{HubNamespaceState, observe},
    index::{
        GatewayIndex, TableId,
        change::Change,
        fixture::{self, HUB, namespace, shop},
    },
    keys_of,
    queries::lifecycle::{earlier_life, proven_gone},
    testing::Rig,
};
use fedgate_api::{keys, names::ProjectKey};
use fedgate_engine::{
    clock::Clock,
    key::Key,
    plan::Requeue,
    plane::discovery::{Answer, Beginning, Inquiry, ProjectEvent},
    runtime::role::Role,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long an orphan is kept.
const GRACE: Duration = Duration::from_secs(60);
/// How long a hub Namespace is kept.
const RETENTION: Duration = Duration::from_secs(600);

fn uid(text: &str) -> Arc<str> {
    text.into()
}

fn deleted(uids: &[&str]) -> Answer {
    Answer {
        deleted: uids.iter().map(|of| uid(of)).collect(),
        ..Answer::default()
    }
}

fn living(uids: &[&str]) -> Answer {
    Answer {
        living: uids.iter().map(|of| uid(of)).collect(),
        ..Answer::default()
    }
}

fn absent(uids: impl IntoIterator<Item = String>) -> Answer {
    Answer {
        absent: uids.into_iter().map(Arc::from).collect(),
        ..Answer::default()
    }
}

/// The hub namespace of a project that nobody engages.
fn hub_of(n: usize) -> Value {
    let labels = json!({keys::UPSTREAM_CLUSTER: format!("cluster-p-{n}"), keys::UPSTREAM_NAMESPACE: "default",
        keys::PROJECT_UID: format!("p-{n}"), keys::CITIES: "dfw"});
    namespace(&format!("ns-{n}"), &format!("u-{n}"), &labels)
}

/// A hub with project `shop` and hub namespaces of these others; the questions that it asks.
fn hub(others: std::ops::Range<usize>) -> (GatewayIndex, Inquiry) {
    let mut index = GatewayIndex::fixture();
    let mut all: Vec<Value> = others.map(hub_of).collect();
    all.push(fixture::hub_namespace("dfw"));
    index.list_hub(TableId::Namespaces, &all);
    let inquiry = Inquiry::default();
    index.platform_listed(inquiry.clone(), Beginning::Server);
    (index, inquiry)
}

/// The hub has a deployment of `shop` in all its parts.
fn fill(index: &mut GatewayIndex) {
    index.list_hub(TableId::DEPLOYMENTS, &[fixture::copy("web", "DFW")]);
    index.list_hub(TableId::Bindings, &[binding()]);
    index.list_hub(TableId::CONFIG_MAPS, &[companion()]);
    index.list_hub(TableId::CityPolicies, &[fixture::city_policy("city-dfw", "DFW")]);
}

fn binding() -> Value {
    let mut binding = fixture::binding("web");
    binding["metadata"]["ownerReferences"] = json!([{"apiVersion": "x/v1", "kind": "WorkloadDeployment", "name": "web",
        "uid": "c-web", "controller": true}]);
    binding["spec"]["clusters"] = json!([{"name": "dfw-1"}]);
    binding["metadata"]["annotations"] = json!({"propagationpolicy.karmada.io/name": "city-dfw",
        "propagationpolicy.karmada.io/namespace": HUB});
    binding
}

fn companion() -> Value {
    fixture::companion("settings", &json!(["default/web"]))
}

/// `shop` leaves and its Project is proven deleted; the keys that this enqueues.
fn ends(index: &mut GatewayIndex) -> Vec<Key> {
    index.disengage(&shop());
    index.project_gone(&uid("p1"));
    let changes = index.platform_answered(deleted(&["p1"]));
    keys_of(index, &changes)
}

/// Reconciles a key; the requests to all planes.
async fn reconcile(gateway: &Gateway, rig: &Rig, key: &Key) -> (Vec<String>, Requeue) {
    let next = gateway.reconcile(&rig.reconcile_once(), key).await.unwrap();
    // The index shows an object until the test takes it away, so its deletion is repeated.
    let mut asked = rig.asked();
    asked.dedup();
    (asked, next)
}

fn key(rig: &Rig, table: TableId, namespace: &str, name: &str) -> Key {
    rig.context.index.lock().hub_key(table, namespace, name)
}

/// Any request to a project's plane would be a GET of `web` or `default`.
fn rig(index: GatewayIndex) -> Rig {
    Rig::new(index, |_, _| {
        (
            200,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        )
    })
}

/// The platform empties a project while the gateway still serves it: what it has on the hub is its own until it leaves.
#[test]
fn a_project_that_leaves_after_it_was_proven_deleted_is_torn_down_then() {
    let (mut index, _) = hub(0..0);
    fill(&mut index);
    index.project_gone(&uid("p1"));
    index.platform_answered(deleted(&["p1"]));
    assert!(!index.is_torn_down(HUB), "it is still engaged");
    let applied = index.disengage(&shop());
    assert!(index.is_torn_down(HUB));
    let enqueued = keys_of(&index, &applied.changes);
    for (table, namespace, name) in [(TableId::DEPLOYMENTS, HUB, "web"), (TableId::Namespaces, "", HUB)] {
        let key = index.hub_key(table, namespace, name);
        assert!(enqueued.contains(&key), "{key} is enqueued");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_project_is_torn_down_in_order_by_the_hub_alone() {
    let (mut index, inquiry) = hub(0..0);
    fill(&mut index);
    assert_eq!(inquiry.take(), [].into(), "an engaged project exists");
    index.disengage(&shop());
    assert!(!proven_gone(&index, HUB), "it may have left for any reason");
    index.project_gone(&uid("p1"));
    assert_eq!(inquiry.take(), [(uid("p1"), uid("shop"))].into());
    assert!(!proven_gone(&index, HUB), "the platform has not answered");
    let enqueued = ends(&mut index);
    let rig = rig(index);
    let gateway = Gateway::default();
    let [copy, companion_key, policies, hub] = [
        (TableId::DEPLOYMENTS, HUB, "web"),
        (TableId::CONFIG_MAPS, HUB, "settings"),
        (TableId::CityPolicies, HUB, ""),
        (TableId::Namespaces, "", HUB),
    ]
    .map(|(table, namespace, name)| key(&rig, table, namespace, name));
    for key in [&copy, &companion_key, &policies, &hub] {
        assert!(enqueued.contains(key), "{key} is enqueued");
    }
    let none: Vec<String> = Vec::new();
    for key in [&companion_key, &policies, &hub] {
        assert_eq!(
            reconcile(&gateway, &rig, key).await.0,
            none,
            "{key} goes after the copy"
        );
    }
    let first = reconcile(&gateway, &rig, &copy).await;
    assert_eq!(first, (vec![], Requeue::After(GRACE)));
    tokio::time::advance(GRACE).await;
    assert_eq!(reconcile(&gateway, &rig, &copy).await.0, ["DELETE web"]);
    rig.context
        .index
        .lock()
        .hub_lost(TableId::DEPLOYMENTS, &fixture::copy("web", "DFW"));
    for key in [&companion_key, &policies, &hub] {
        assert_eq!(
            reconcile(&gateway, &rig, key).await.0,
            none,
            "{key} goes after the binding"
        );
    }
    rig.enqueued().await;
    let enqueued = rig.context.index.lock().hub_lost(TableId::Bindings, &binding());
    assert!(enqueued.contains(&hub));
    assert_eq!(reconcile(&gateway, &rig, &hub).await.0, none, "it is not empty");
    let enqueued = rig.enqueued().await;
    for (key, object) in [(&companion_key, "settings"), (&policies, "city-dfw")] {
        assert!(enqueued.contains(key), "{key} is enqueued by the binding's end");
        assert_eq!(
            reconcile(&gateway, &rig, key).await.0,
            [format!("DELETE {object}")]
        );
    }
    let enqueued = rig
        .context
        .index
        .lock()
        .hub_lost(TableId::CONFIG_MAPS, &companion());
    assert!(enqueued.contains(&hub));
    assert_eq!(
        reconcile(&gateway, &rig, &hub).await,
        (vec![], Requeue::After(RETENTION))
    );
    tokio::time::advance(RETENTION).await;
    assert_eq!(reconcile(&gateway, &rig, &hub).await.0, [format!("DELETE {HUB}")]);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_starts_in_the_midst_goes_on() {
    let mut index = GatewayIndex::fixture();
    index.disengage(&shop());
    index.list_hub(TableId::CONFIG_MAPS, &[companion()]);
    let inquiry = Inquiry::default();
    index.platform_listed(inquiry.clone(), Beginning::Server);
    assert_eq!(inquiry.take(), [(uid("p1"), uid("shop"))].into());
    index.platform_answered(deleted(&["p1"]));
    let (rig, gateway) = (rig(index), Gateway::default());
    let companion = key(&rig, TableId::CONFIG_MAPS, HUB, "settings");
    assert_eq!(reconcile(&gateway, &rig, &companion).await.0, ["DELETE settings"]);
}

#[test]
fn the_platform_is_asked_once_for_each_project_that_is_not_engaged() {
    let mut index = GatewayIndex::fixture();
    index.list_hub(TableId::Namespaces, &[]);
    let inquiry = Inquiry::default();
    index.platform_listed(inquiry.clone(), Beginning::Server);
    let mut anonymous = hub_of(7);
    let labels = anonymous["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(keys::UPSTREAM_CLUSTER);
    for namespace in [
        fixture::hub_namespace("dfw"),
        hub_of(1),
        anonymous,
        namespace("kube-x", "k", &json!({})),
    ] {
        index.hub_has(TableId::Namespaces, &namespace);
    }
    assert_eq!(inquiry.take(), [(uid("p-1"), uid("p-1"))].into());
    index.hub_has(TableId::Namespaces, &at(hub_of(1), "6"));
    assert_eq!(inquiry.take(), [].into(), "the question is open");
    index.platform_answered(living(&["p-1"]));
    index.hub_has(TableId::Namespaces, &at(hub_of(1), "7"));
    assert_eq!(inquiry.take(), [].into(), "it exists");
    index.project_gone(&uid("p-1"));
    assert_eq!(inquiry.take(), [(uid("p-1"), uid("p-1"))].into());
    // The hub has nothing of this one.
    index.project_gone(&uid("p-2"));
    assert_eq!(inquiry.take(), [].into());
}

fn at(mut object: Value, version: &str) -> Value {
    object["metadata"]["resourceVersion"] = json!(version);
    object
}

#[test]
fn a_project_that_leaves_keeps_everything_and_so_does_one_that_lives() {
    let (mut index, _inquiry) = hub(0..0);
    fill(&mut index);
    index.disengage(&shop());
    assert!(!proven_gone(&index, HUB));
    index.project_gone(&uid("p1"));
    index.platform_answered(living(&["p1"]));
    assert!(!index.is_torn_down(HUB) && !proven_gone(&index, HUB));
    // It is found between the question and the answer.
    index.engage_identified(shop(), Some(uid("p1")));
    index.project_engaged(&shop());
    index.platform_answered(deleted(&["p1"]));
    index.disengage(&shop());
    assert!(!index.is_torn_down(HUB));
    // In another mode nobody asks.
    let mut index = GatewayIndex::fixture();
    index.disengage(&shop());
    index.project_gone(&uid("p1"));
    assert!(!proven_gone(&index, HUB));
}

fn torn(index: &GatewayIndex, count: usize) -> usize {
    (0..count)
        .filter(|n| index.is_torn_down(&format!("ns-{n}")))
        .count()
}

fn names(range: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    range.map(|n| format!("p-{n}"))
}

/// The annotation by which an operator says that the Project of a hub namespace is deleted.
fn confirmed(n: usize, at: jiff::Timestamp, version: &str) -> Value {
    let mut namespace = self::at(hub_of(n), version);
    namespace["metadata"]["annotations"] = json!({keys::GARBAGE_CONFIRMED: at.to_string()});
    namespace
}

/// As after a restore of the platform to a state from before the Project was made.
#[tokio::test(start_paused = true)]
async fn a_project_that_nobody_saw_go_is_kept_however_few_they_are() {
    let (mut index, _inquiry) = hub(0..50);
    let changes = index.platform_answered(absent(names(0..1)));
    assert!(index.teardown.is_held());
    assert!(
        !proven_gone(&index, "ns-0") && torn(&index, 50) == 0,
        "{changes:?}"
    );
    let rig = rig(index);
    let gateway = Gateway::default();
    let namespace = key(&rig, TableId::Namespaces, "", "ns-0");
    for _ in 0..60 {
        let (asked, _) = reconcile(&gateway, &rig, &namespace).await;
        assert_eq!(asked, Vec::<String>::new());
        tokio::time::advance(Duration::from_hours(24)).await;
        gateway.prune(&rig.context);
    }
    assert_eq!(gateway.brakes(&rig.context.index.lock()), ["platform"]);
    // Its Project comes back by a newer backup.
    let mut index = rig.context.index.lock();
    index.platform_answered(living(&["p-0"]));
    assert!(!index.teardown.is_held());
}

#[test]
fn projects_that_were_seen_to_go_are_torn_down_beside_absent_ones() {
    let (mut index, _inquiry) = hub(0..50);
    index.platform_answered(absent(names(0..11)));
    assert_eq!((index.teardown.is_held(), torn(&index, 50)), (true, 0));
    let seen: Vec<String> = names(0..12).collect();
    let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
    let changes = index.platform_answered(deleted(&seen[1..]));
    assert_eq!(torn(&index, 50), 11, "all but the one that is absent");
    let enqueued = |n: usize| {
        let hub = format!("ns-{n}");
        changes
            .iter()
            .any(|of| matches!(of, Change::HubNamespace { hub: of, .. } if **of == *hub))
    };
    assert!((1..12).all(enqueued) && !enqueued(0), "{changes:?}");
    assert!(index.teardown.is_held());
}

#[test]
fn another_platform_or_a_restored_one_is_asked_anew() {
    let (mut index, inquiry) = hub(0..3);
    index.disengage(&shop());
    index.platform_listed(inquiry.clone(), Beginning::Server);
    inquiry.take();
    index.platform_answered(absent(names(0..3).chain(["p1".to_owned()])));
    assert!(index.teardown.is_held());
    assert_eq!((torn(&index, 3), index.is_torn_down(HUB)), (0, false));
    // The right one is configured: what the other one lacked is asked for again.
    index.platform_listed(inquiry.clone(), Beginning::Server);
    assert_eq!(inquiry.take().len(), 4);
    let mut answer = living(&["p1", "p-1"]);
    answer.deleted = [uid("p-0"), uid("p-2")].into();
    index.platform_answered(answer);
    assert!(!index.teardown.is_held());
    assert_eq!(torn(&index, 3), 2);
    // A deletion that was observed stays one for another server, since it is proven.
    index.platform_listed(inquiry.clone(), Beginning::Server);
    assert_eq!((inquiry.take().len(), torn(&index, 3)), (2, 2));
    // In the state that the platform has been restored to, the deletions have not happened.
    index.platform_listed(inquiry.clone(), Beginning::Restored);
    assert_eq!((inquiry.take().len(), torn(&index, 3)), (4, 0));
}

#[test]
fn an_operator_confirms_a_hub_namespace_after_its_projects_absence_is_known() {
    let (mut index, _inquiry) = hub(0..11);
    let now = index.clock.now().wall;
    let before = now - Duration::from_secs(1);
    index.hub_has(TableId::Namespaces, &confirmed(0, before, "6"));
    index.platform_answered(absent(names(0..11)));
    assert_eq!(torn(&index, 11), 0, "that was confirmed before");
    let late = now + Duration::from_secs(60);
    index.hub_has(TableId::Namespaces, &confirmed(0, late, "7"));
    assert_eq!(torn(&index, 11), 0, "that time is to come");
    let keys = index.hub_has(TableId::Namespaces, &confirmed(1, now, "7"));
    assert!(index.is_torn_down("ns-1") && torn(&index, 11) == 1);
    let namespace = index.hub_key(TableId::Namespaces, "", "ns-1");
    assert!(keys.contains(&namespace), "{keys:?}");
    index.clock = Clock::fixed(late);
    let changes = index.confirmed();
    let hubs: Vec<&str> = changes
        .iter()
        .filter_map(|change| match change {
            Change::HubNamespace { hub, .. } => Some(&**hub),
            _ => None,
        })
        .collect();
    assert_eq!(hubs, ["ns-0", "ns-1"], "it has come");
    assert_eq!((torn(&index, 11), index.teardown.is_held()), (2, true));
    for n in 2..11 {
        index.hub_has(TableId::Namespaces, &confirmed(n, late, "8"));
    }
    assert_eq!((torn(&index, 11), index.teardown.is_held()), (11, false));
}

#[test]
fn an_absent_project_whose_name_another_one_has_waits_for_the_other_ones_lists() {
    let (mut index, _inquiry) = hub(0..1);
    let other = ProjectKey::parse("p-0").unwrap();
    index.platform_answered(Answer {
        replaced: [uid("p-0")].into(),
        ..Answer::default()
    });
    assert!(
        !index.is_torn_down("ns-0"),
        "it may be the same under another identity"
    );
    let now = index.clock.now().wall;
    index.hub_has(TableId::Namespaces, &confirmed(0, now, "6"));
    assert!(!index.is_torn_down("ns-0"), "an operator may not know of that");
    index.engage_identified(other.clone(), Some(uid("p-new")));
    let changes = index.project_engaged(&other);
    assert!(
        matches!(&changes[..], [Change::HubNamespace { hub, .. }] if **hub == *"ns-0"),
        "{changes:?}"
    );
    assert!(!proven_gone(&index, "ns-0"), "its namespaces are not listed");
    for table in index.project_tables() {
        fixture::list(&[], |event| index.project_event(&other, table, event));
    }
    assert!(proven_gone(&index, "ns-0"));
    // The namespace lives on in the other one: it has an owner.
    let lives = namespace("default", "0", &json!({}));
    fixture::list(&[lives], |event| {
        index.project_event(&other, TableId::Namespaces, event)
    });
    assert!(!index.is_torn_down("ns-0"));
}

#[tokio::test(start_paused = true)]
async fn the_projects_of_another_platform_are_named_and_nothing_of_them_is_changed() {
    let (mut index, inquiry) = hub(0..3);
    index.disengage(&shop());
    index.platform_listed(inquiry, Beginning::Server);
    let copy = fixture::copy("web", "DFW");
    index.list_hub(TableId::DEPLOYMENTS, &[copy]);
    index.platform_answered(absent(names(0..3).chain(["p1".to_owned()])));
    let rig = rig(index);
    let gateway = Gateway::default();
    let unknown = rig.context.index.lock().unknown_projects();
    let labels: Vec<_> = unknown.iter().filter_map(|(label, _)| label.as_deref()).collect();
    assert_eq!(labels.len(), 4, "{labels:?}");
    assert!(labels.contains(&"cluster-shop"), "{labels:?}");
    let copy = self::key(&rig, TableId::DEPLOYMENTS, HUB, "web");
    let namespace = self::key(&rig, TableId::Namespaces, "", HUB);
    for _ in 0..3 {
        for key in [&copy, &namespace] {
            let (asked, _) = reconcile(&gateway, &rig, key).await;
            assert_eq!(asked, Vec::<String>::new(), "{key}");
        }
        tokio::time::advance(Duration::from_hours(1)).await;
    }
}

/// A Project is deleted and made again under its name, and its namespace keeps its UID.
#[tokio::test(start_paused = true)]
async fn a_project_made_again_waits_for_the_end_of_its_earlier_life_however_large_that_was() {
    let (mut index, _inquiry) = hub(0..0);
    let copies: Vec<Value> = (0..30)
        .map(|n| fixture::copy(&format!("old-{n}"), "DFW"))
        .collect();
    index.list_hub(TableId::DEPLOYMENTS, &copies);
    ends(&mut index);
    index.engage_identified(shop(), Some(uid("p2")));
    index.project_engaged(&shop());
    for table in index.project_tables() {
        let objects = match table {
            TableId::Namespaces => vec![namespace("default", "a1", &json!({}))],
            TableId::DEPLOYMENTS => vec![fixture::source("web", "DFW")],
            _ => Vec::new(),
        };
        index.list_shop(table, &objects);
    }
    assert!(earlier_life(&index, &shop(), HUB) && !index.is_torn_down(HUB));
    let key = index.source_key(fedgate_kinds::KindId::FIRST, &shop(), "default", "web");
    let state = |index: &GatewayIndex| observe(index, &key, &shop()).unwrap().hub_state;
    // Its condition says EarlierLifeDraining.
    assert_eq!(state(&index), HubNamespaceState::EarlierLife);
    let rig = rig(index);
    let gateway = Gateway::default();
    let (asked, _) = reconcile(&gateway, &rig, &key.clone()).await;
    assert!(
        asked
            .iter()
            .all(|request| request == "PATCH status" || request == "PATCH web"),
        "{asked:?}"
    );
    for n in 0..30 {
        let old = self::key(&rig, TableId::DEPLOYMENTS, HUB, &format!("old-{n}"));
        reconcile(&gateway, &rig, &old).await;
    }
    tokio::time::advance(GRACE).await;
    let old = self::key(&rig, TableId::DEPLOYMENTS, HUB, "old-0");
    let (asked, _) = reconcile(&gateway, &rig, &old).await;
    assert_eq!(
        asked.last().map(String::as_str),
        Some("DELETE old-0"),
        "{asked:?}"
    );
    assert!(!gateway.garbage.brake(), "its Project's deletion is known");
    let mut index = rig.context.index.lock();
    index.list_hub(TableId::DEPLOYMENTS, &[]);
    assert_eq!(state(&index), HubNamespaceState::Ours);
}

#[tokio::test]
async fn events_of_discovery_reach_the_index_and_wake_what_they_concern() {
    let (mut index, _) = hub(0..1);
    index.disengage(&shop());
    let (rig, gateway) = (rig(index), Gateway::default());
    let inquiry = Inquiry::default();
    let heard = inquiry.clone();
    let begins = Beginning::Server;
    gateway.on_project(&rig.context, ProjectEvent::Listed { inquiry, begins });
    assert_eq!(heard.take().len(), 2);
    gateway.on_project(&rig.context, ProjectEvent::Answered(living(&["p-0"])));
    gateway.on_project(&rig.context, ProjectEvent::Gone { uid: uid("p-0") });
    assert_eq!(heard.take(), [(uid("p-0"), uid("p-0"))].into());
    gateway.on_project(&rig.context, ProjectEvent::Answered(deleted(&["p-0"])));
    let namespace = key(&rig, TableId::Namespaces, "", "ns-0");
    assert!(rig.enqueued().await.contains(&namespace));
}
