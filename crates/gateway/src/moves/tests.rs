//! The planner of moves: deployments that move, and their new cells (contract: serving.md §2).

use super::{decide::Decision, observe::Snapshot, *};
use crate::{
    index::{
        TableId,
        fixture::{self, shop},
        intents::moves::PlannedMove,
        rows::MoveCause,
    },
    testing,
};
use fedgate_api::keys;
use fedgate_kinds::KindId;
use serde_json::{Value, json};
use std::{sync::LazyLock, time::Duration};
use tokio::time::Instant;

static SETTINGS: LazyLock<Settings> = LazyLock::new(testing::settings);

/// The time at which cells that are not ready since [`READY_UNTIL`] are lost.
fn now() -> Now {
    Now {
        wall: "2026-05-04T10:05:00Z".parse().unwrap(),
        instant: Instant::now(),
    }
}

const READY_UNTIL: &str = "2026-05-04T10:00:00Z";

/// A ready Cluster of a city that serves deployments.
fn cluster(name: &str, city: &str) -> Value {
    let mut cluster = fixture::object("", name, &format!("m-{name}"));
    cluster["metadata"]["labels"] = json!({keys::CITY_CODE: city});
    cluster["status"] = json!({
        "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "lastTransitionTime": READY_UNTIL}],
        "apiEnablements": [{"groupVersion": "compute.datumapis.com/v1alpha", "resources": [{"kind": "WorkloadDeployment"}]}],
    });
    cluster
}

fn drained(mut cluster: Value) -> Value {
    cluster["spec"]["taints"] = json!([{"key": keys::DRAINING, "effect": "NoSchedule"}]);
    cluster
}

fn unready(mut cluster: Value) -> Value {
    cluster["status"]["conditions"][0]["status"] = json!("False");
    cluster
}

/// The index with these Clusters, and with deployments (name, cell) of two replicas each in DFW.
fn index(clusters: &[Value], deployments: &[(&str, &str)]) -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    index.list_hub(TableId::Clusters, clusters);
    for (name, cell) in deployments {
        index.shop_has(TableId::DEPLOYMENTS, &fixture::source(name, "DFW"));
        index.hub_has(TableId::DEPLOYMENTS, &fixture::copy(name, "DFW"));
        index.hub_has(TableId::Bindings, &binding(name, cell));
    }
    index
}

fn binding(name: &str, cell: &str) -> Value {
    let mut binding = fixture::binding(name);
    let owner =
        json!([{"apiVersion": "x", "kind": "WorkloadDeployment", "name": name, "uid": format!("c-{name}")}]);
    binding["metadata"]["ownerReferences"] = owner;
    binding["spec"]["clusters"] = json!([{"name": cell, "replicas": 2}]);
    binding["spec"]["replicas"] = json!(2);
    binding
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::new(KindId::FIRST, &fixture::HUB.into(), &name.into())
}

fn decided(index: &GatewayIndex) -> Decision {
    let snapshot: Snapshot = observe::observe(index, now()).unwrap();
    decide(&snapshot, &SETTINGS, now())
}

/// The planned moves in words.
fn planned(index: &GatewayIndex) -> Vec<String> {
    let decision = decided(index);
    let all = decision.planned.iter();
    all.map(|(of, PlannedMove { from, to, cause, .. })| format!("{} {from} {to} {}", of.name, cause.as_str()))
        .collect()
}

#[test]
fn a_deployment_that_names_an_unserved_city_moves_within_its_city() {
    let there = [
        drained(cluster("dfw-1", "DFW")),
        cluster("dfw-2", "DFW"),
        cluster("lhr-1", "LHR"),
    ];
    let moved = vec!["web dfw-1 dfw-2 Draining"];
    for (city, wanted) in [("LHR", vec![]), ("FRA", moved.clone()), ("DFW", moved)] {
        let mut index = index(&there, &[]);
        index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", city));
        index.hub_has(TableId::DEPLOYMENTS, &fixture::copy("web", "DFW"));
        index.hub_has(TableId::Bindings, &binding("web", "dfw-1"));
        assert_eq!(planned(&index), wanted, "{city}");
        let again = Requeue::After(Duration::from_secs(30));
        assert_eq!(decided(&index).next, again, "a move is slow, or is tried again");
    }
}

#[test]
fn deployments_of_a_drained_cell_go_to_the_cell_of_the_city_with_the_least_load() {
    let cells = [
        drained(cluster("dfw-1", "DFW")),
        cluster("dfw-2", "DFW"),
        cluster("dfw-3", "DFW"),
        cluster("lhr-1", "LHR"),
    ];
    let deployments = [
        ("a", "dfw-1"),
        ("b", "dfw-1"),
        ("c", "dfw-2"),
        ("d", "dfw-3"),
        ("e", "dfw-3"),
    ];
    assert_eq!(
        planned(&index(&cells, &deployments)),
        ["a dfw-1 dfw-2 Draining", "b dfw-1 dfw-2 Draining"]
    );
    let mut others = cells.clone();
    others[1] = drained(cells[1].clone());
    others[2] = unready(cells[2].clone());
    assert_eq!(
        planned(&index(&others, &deployments)),
        [""; 0],
        "no other cell is usable"
    );
}

#[test]
fn a_cell_that_lacks_the_kind_is_leaving_or_has_another_taint_takes_nothing() {
    let mut bare = cluster("dfw-2", "DFW");
    bare["status"]["apiEnablements"] = json!([]);
    let mut going = cluster("dfw-2", "DFW");
    going["metadata"]["deletionTimestamp"] = json!(READY_UNTIL);
    let mut tainted = cluster("dfw-2", "DFW");
    tainted["spec"]["taints"] = json!([{"key": "x", "effect": "NoExecute"}]);
    for other in [bare, going, tainted] {
        let cells = [drained(cluster("dfw-1", "DFW")), other];
        assert_eq!(planned(&index(&cells, &[("a", "dfw-1")])), [""; 0]);
    }
}

#[test]
fn a_cell_is_lost_after_its_time_and_its_deployments_move() {
    let cells = [unready(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let index = index(&cells, &[("a", "dfw-1")]);
    assert_eq!(planned(&index), ["a dfw-1 dfw-2 CellLost"]);
    let early = Now {
        wall: "2026-05-04T10:04:59Z".parse().unwrap(),
        ..now()
    };
    let snapshot = observe::observe(&index, early).unwrap();
    let decision = decide(&snapshot, &SETTINGS, early);
    assert!(decision.planned.is_empty() && decision.lost.is_empty());
    assert_eq!(decision.next, Requeue::After(Duration::from_secs(1)));
}

/// The cell that a deployment reads to be lost.
fn stranded(index: &GatewayIndex, name: &str) -> Option<Arc<str>> {
    let key = index.source_key(KindId::FIRST, &shop(), "default", name);
    let cells = crate::federator::observe::observe(index, &key, &shop())
        .unwrap()
        .cells;
    cells.stranded.map(|(cell, _)| cell)
}

#[test]
fn a_lost_cell_without_another_one_strands_its_deployments_until_it_returns() {
    let mut index = index(&[unready(cluster("dfw-1", "DFW"))], &[("a", "dfw-1")]);
    let (_, changed) = plan(&mut index, &SETTINGS, now());
    assert_eq!(changed, [object("a")].into());
    assert!(index.intents.moves.planned.is_empty());
    assert_eq!(stranded(&index, "a").as_deref(), Some("dfw-1"));
    let mut back = cluster("dfw-1", "DFW");
    back["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Clusters, &back);
    let (_, changed) = plan(&mut index, &SETTINGS, now());
    assert_eq!(changed, [object("a")].into(), "the condition CellLost ends");
    assert_eq!(stranded(&index, "a"), None);
}

/// The lost cells, and whether their deployments do not move.
fn held(index: &GatewayIndex) -> Vec<(Arc<str>, bool)> {
    let lost = decided(index).lost.into_iter();
    lost.map(|(name, lost)| (name, lost.is_held)).collect()
}

#[test]
fn nothing_moves_while_two_cells_of_its_city_or_a_fifth_of_all_are_not_ready() {
    let of_city = [
        unready(cluster("dfw-1", "DFW")),
        unready(cluster("dfw-2", "DFW")),
        cluster("dfw-3", "DFW"),
    ];
    let both = [("a", "dfw-1"), ("b", "dfw-2")];
    let at_both = index(&of_city, &both);
    assert_eq!(held(&at_both), [("dfw-1".into(), true), ("dfw-2".into(), true)]);
    assert_eq!(planned(&at_both), [""; 0]);
    // A cell that runs nothing does not count.
    assert_eq!(planned(&index(&of_city, &both[..1])), ["a dfw-1 dfw-3 CellLost"]);
    // Nor does one that an operator drains: this confirms that it is gone.
    let mut confirmed = of_city.clone();
    confirmed[1] = drained(of_city[1].clone());
    assert_eq!(
        planned(&index(&confirmed, &both)),
        ["a dfw-1 dfw-3 CellLost", "b dfw-2 dfw-3 Draining"]
    );
    // A cell that has not been ready for a second counts for the others.
    let mut early = of_city.clone();
    early[1]["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-05-04T10:04:59Z");
    assert_eq!(held(&index(&early, &both)), [("dfw-1".into(), true)]);
    let many: Vec<Value> = (0..10)
        .map(|n| match n {
            0 => unready(cluster("dfw-1", "DFW")),
            1 => unready(cluster("lhr-1", "LHR")),
            _ => cluster(&format!("dfw-{}", n + 1), "DFW"),
        })
        .collect();
    let at_both = [("a", "dfw-1"), ("b", "lhr-1")];
    // Of nine cells two are more than a fifth; of ten they are not.
    assert_eq!(planned(&index(&many[..9], &at_both)), [""; 0]);
    assert_eq!(
        planned(&index(&many, &at_both)),
        ["a dfw-1 dfw-10 CellLost", "b lhr-1 dfw-3 CellLost"]
    );
}

#[test]
fn an_operator_moves_a_deployment_to_a_cell_that_can_run_it() {
    let cells = [
        cluster("dfw-1", "DFW"),
        cluster("dfw-2", "DFW"),
        cluster("lhr-1", "LHR"),
    ];
    let mut index = index(&cells, &[("a", "dfw-1")]);
    let mut version = 5;
    for (to, expected) in [
        ("dfw-2", &["a dfw-1 dfw-2 Requested"][..]),
        ("lhr-1", &[]),
        ("dfw-9", &[]),
        ("dfw-1", &[]),
    ] {
        let mut copy = fixture::copy("a", "DFW");
        copy["metadata"]["annotations"][keys::MOVE_TO] = json!(to);
        version += 1;
        copy["metadata"]["resourceVersion"] = json!(version.to_string());
        let keys = index.hub_has(TableId::DEPLOYMENTS, &copy);
        assert_eq!(planned(&index), expected, "{to}");
        assert!(keys.contains(&index.moves_key()), "{to}");
    }
}

/// A move that began so many seconds ago.
fn moving(name: &str, seconds: i64) -> Value {
    let since = now().wall - jiff::SignedDuration::from_secs(seconds);
    let mut binding = binding(name, "dfw-2");
    binding["spec"]["gracefulEvictionTasks"] = json!([{"fromCluster": "dfw-1", "purgeMode": "Gracefully", "producer": "fedgate",
        "suppressDeletion": true, "reason": "Draining", "creationTimestamp": since.to_string()}]);
    binding["metadata"]["resourceVersion"] = json!("6");
    binding
}

#[test]
fn the_moves_of_a_city_are_limited_and_slow_ones_do_not_count() {
    let names: Vec<String> = (10..30).map(|n| format!("d-{n}")).collect();
    let deployments: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "dfw-1")).collect();
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &deployments);
    assert_eq!(planned(&index).len(), 8);
    for name in &names[..3] {
        let keys = index.hub_has(TableId::Bindings, &moving(name, 10));
        assert!(
            keys.contains(&index.moves_key()),
            "the begin of a move enqueues the planner"
        );
    }
    let decision = decided(&index);
    assert_eq!(decision.planned.len(), 5);
    assert_eq!(decision.next, Requeue::After(Duration::from_secs(20)));
    for name in &names[3..7] {
        index.hub_has(TableId::Bindings, &moving(name, 31));
    }
    assert_eq!(planned(&index).len(), 5);
}

#[test]
fn a_planned_move_that_does_not_begin_keeps_no_other_one_waiting() {
    let names: Vec<String> = (10..30).map(|n| format!("d-{n}")).collect();
    let deployments: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "dfw-1")).collect();
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &deployments);
    let (next, _) = plan(&mut index, &SETTINGS, now());
    assert!(matches!(next, Requeue::After(left) if left <= Duration::from_secs(30)));
    let later = Now {
        instant: now().instant + Duration::from_secs(31),
        ..now()
    };
    plan(&mut index, &SETTINGS, later);
    assert_eq!(index.intents.moves.planned.len(), 16);
}

#[test]
fn a_deployment_on_its_way_to_another_city_is_not_moved() {
    let cells = [
        drained(cluster("dfw-1", "DFW")),
        cluster("dfw-2", "DFW"),
        cluster("lhr-1", "LHR"),
    ];
    let mut index = index(&cells, &[("a", "dfw-1"), ("b", "dfw-1")]);
    let mut elsewhere = fixture::source("a", "LHR");
    elsewhere["metadata"]["resourceVersion"] = json!("6");
    index.shop_has(TableId::DEPLOYMENTS, &elsewhere);
    assert_eq!(planned(&index), ["b dfw-1 dfw-2 Draining"]);
}

#[test]
fn a_deployment_that_names_another_hub_is_not_moved() {
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &[("a", "dfw-1"), ("b", "dfw-1")]);
    let own = fixture::namespace("kube-system", "hub-1", &json!({}));
    index.hub_has(TableId::Namespaces, &own);
    for (name, hub) in [("a", "hub-2"), ("b", "hub-1")] {
        let mut source = fixture::source(name, "DFW");
        source["metadata"]["annotations"][keys::HUB] = json!(hub);
        source["metadata"]["resourceVersion"] = json!("6");
        index.shop_has(TableId::DEPLOYMENTS, &source);
    }
    assert_eq!(planned(&index), ["b dfw-1 dfw-2 Draining"]);
}

#[test]
fn a_deployment_that_karmada_places_at_a_drained_cell_after_the_plan_is_planned() {
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &[]);
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("a", "DFW"));
    index.hub_has(TableId::DEPLOYMENTS, &fixture::copy("a", "DFW"));
    assert!(
        index
            .hub_has(TableId::Bindings, &binding("a", "dfw-1"))
            .contains(&index.moves_key())
    );
    assert!(
        !index
            .hub_has(TableId::Bindings, &binding("b", "dfw-2"))
            .contains(&index.moves_key())
    );
}

#[test]
fn a_plan_waits_until_the_clusters_are_known() {
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &[("a", "dfw-1")]);
    index.hub_event(TableId::Clusters, fedgate_engine::plane::watch::WatchEvent::Init);
    plan(&mut index, &SETTINGS, now());
    assert!(index.intents.unproven[&Plane::Hub].contains(&index.moves_key()));
}

#[test]
fn one_project_does_not_keep_the_deployments_of_another_one_waiting() {
    let names: Vec<String> = (10..30).map(|n| format!("d-{n}")).collect();
    let deployments: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "dfw-1")).collect();
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &deployments);
    index.with_zoo("p2", "b2");
    let mut hub = fixture::hub_namespace("dfw");
    hub["metadata"]["name"] = json!("ns-b2");
    hub["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!(fixture::zoo().label());
    hub["metadata"]["labels"][keys::UPSTREAM_NAMESPACE] = json!("cages");
    hub["metadata"]["labels"][keys::PROJECT_UID] = json!("p2");
    index.hub_has(TableId::Namespaces, &hub);
    let of_zoo = |mut object: Value, namespace: &str| {
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    let source = of_zoo(fixture::source("z", "DFW"), "cages");
    let event =
        fedgate_engine::plane::watch::WatchEvent::Apply(Box::new(serde_json::from_value(source).unwrap()));
    index.project_event(&fixture::zoo(), TableId::DEPLOYMENTS, event);
    index.hub_has(TableId::DEPLOYMENTS, &of_zoo(fixture::copy("z", "DFW"), "ns-b2"));
    index.hub_has(TableId::Bindings, &of_zoo(binding("z", "dfw-1"), "ns-b2"));
    assert!(planned(&index).contains(&"z dfw-1 dfw-2 Draining".to_owned()));
}

#[test]
fn a_cancelled_move_waits_and_then_prefers_another_cell() {
    let cells = [
        drained(cluster("dfw-1", "DFW")),
        cluster("dfw-2", "DFW"),
        cluster("dfw-3", "DFW"),
    ];
    let mut index = index(&cells, &[("a", "dfw-1"), ("b", "dfw-3")]);
    assert_eq!(planned(&index), ["a dfw-1 dfw-2 Draining"]);
    let moves = &mut index.intents.moves;
    moves.planned = [(
        object("a"),
        PlannedMove {
            from: "dfw-1".into(),
            to: "dfw-2".into(),
            cause: MoveCause::Draining,
            since: now().instant,
        },
    )]
    .into();
    moves.cancel(&object("a"), Some(&"dfw-2".into()), now());
    assert!(moves.planned.is_empty() && moves.cancelled(&object("a")).is_some());
    let decision = decided(&index);
    assert!(decision.planned.is_empty());
    assert!(matches!(decision.next, Requeue::After(left) if left > Duration::from_secs(50)));
    let later = Now {
        instant: now().instant + Duration::from_mins(1),
        ..now()
    };
    let snapshot = observe::observe(&index, later).unwrap();
    let decision = decide(&snapshot, &SETTINGS, later);
    assert_eq!(&*decision.planned[&object("a")].to, "dfw-3");
    // The drain ends, and the record with it: the condition MoveStalled ends.
    index.hub_has(TableId::Clusters, &{
        let mut open = cluster("dfw-1", "DFW");
        open["metadata"]["resourceVersion"] = json!("6");
        open
    });
    let (_, changed) = plan(&mut index, &SETTINGS, now());
    assert_eq!(changed, [object("a")].into());
    assert!(index.intents.moves.cancelled(&object("a")).is_none());
}

#[test]
fn a_plan_enqueues_the_deployments_whose_plan_changed() {
    let cells = [drained(cluster("dfw-1", "DFW")), cluster("dfw-2", "DFW")];
    let mut index = index(&cells, &[("a", "dfw-1"), ("b", "dfw-2")]);
    let (_, changed) = plan(&mut index, &SETTINGS, now());
    assert_eq!(changed, [object("a")].into());
    let (_, changed) = plan(&mut index, &SETTINGS, now());
    assert_eq!(changed, [].into());
    let key = index.source_key(KindId::FIRST, &shop(), "default", "a");
    let planned = crate::federator::observe::observe(&index, &key, &shop())
        .unwrap()
        .cells
        .planned;
    assert_eq!(planned.map(|planned| planned.to), Some("dfw-2".into()));
}
