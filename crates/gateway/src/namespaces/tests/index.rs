//! Cities of a hub Namespace, decided from the index.

use crate::index::{
    GatewayIndex, TableId,
    fixture::{self, HUB, hub_namespace},
};
use crate::namespaces::{
    decide::{Decision, Snapshot},
    note_set, observe,
    sets::{self, note_limit},
};
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    plan::{Plan, Requeue, Write},
    plane::watch::WatchEvent,
};
use fedgate_kinds::KindId;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

const LINGER: Duration = Duration::from_secs(60);

fn decided(index: &GatewayIndex, s: &Snapshot, now: Now) -> Decision {
    sets::decided(index, s, LINGER, 2, now)
}

fn reasons(d: &Decision) -> Vec<&'static str> {
    d.plan.effects.iter().map(|e| e.reason.label()).collect()
}

/// A Namespace of a set whose name does not list its cities, with a deployment in LHR.
fn unreadable() -> GatewayIndex {
    let mut index = GatewayIndex::fixture();
    let mut namespace = hub_namespace("lower.0123abcd");
    namespace["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &namespace);
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "LHR"));
    index
}

#[tokio::test]
async fn a_set_that_nobody_can_read_is_left_only_after_the_linger() {
    let mut index = unreadable();
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let due = Now {
        instant: now.instant + LINGER,
        ..now
    };
    let mut s = observe(&index, HUB).unwrap();
    let first = decided(&index, &s, now);
    assert_eq!(
        (first.plan, first.left.len()),
        (Plan::wait(Requeue::After(LINGER)), 1)
    );
    s.left = first.left;
    assert_eq!(
        reasons(&decided(&index, &s, due)),
        ["create_city_set", "move_namespace"]
    );
    s.unlabelled = true;
    assert_eq!(decided(&index, &s, due).plan, Plan::default());
    index.shop_lost(TableId::DEPLOYMENTS, &fixture::source("web", "LHR"));
    let unused = observe(&index, HUB).unwrap();
    assert_eq!(
        decided(&index, &unused, due),
        decided(&index, &unused, now),
        "without use it is never left"
    );
    assert_eq!((unused.current, unused.left), (None, BTreeMap::new()));
}

#[tokio::test]
async fn a_policy_that_is_gone_is_made_again_for_the_cities_that_linger_or_for_none_in_use() {
    let mut index = GatewayIndex::fixture();
    let mut namespace = hub_namespace("dfw-lhr");
    namespace["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &namespace);
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let unused = decided(&index, &observe(&index, HUB).unwrap(), now);
    assert_eq!(reasons(&unused), ["create_city_set"]);
    assert_eq!(unused.plan.effects[0].target.name, "cities-dfw-lhr");
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
    let lingers = decided(&index, &observe(&index, HUB).unwrap(), now);
    assert_eq!(reasons(&lingers), ["create_city_set"]);
    assert_eq!(lingers.plan.effects[0].target.name, "cities-dfw-lhr");
}

#[tokio::test]
async fn a_set_that_someone_edits_is_put_back_at_once() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut index = GatewayIndex::fixture();
    index.shop_has(TableId::DEPLOYMENTS, &fixture::source("web", "DFW"));
    for policy in [
        fixture::city_set("cities-dfw", &["DFW"]),
        fixture::city_set("cities-dfw-lhr", &["DFW", "LHR"]),
    ] {
        index.hub_has(TableId::CitySets, &policy);
    }
    note_set(&mut index, HUB, false);
    let mut edited = hub_namespace("dfw-lhr");
    edited["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &edited);
    note_set(&mut index, HUB, false);
    let restored = decided(&index, &observe(&index, HUB).unwrap(), now);
    assert_eq!(reasons(&restored), ["move_namespace"]);
    let Write::Merge { patch } = &restored.plan.effects[0].write else {
        panic!("{restored:?}")
    };
    assert_eq!(patch["metadata"]["labels"][keys::CITIES], "dfw");

    note_set(&mut index, HUB, true);
    let ours = decided(&index, &observe(&index, HUB).unwrap(), now);
    assert_eq!(
        (ours.plan, ours.left.len()),
        (Plan::wait(Requeue::After(LINGER)), 1),
        "the same set, written by us, lingers"
    );
}

#[tokio::test]
async fn a_projects_namespaces_use_so_many_sets_and_one_that_waits_is_woken_by_room() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut index = GatewayIndex::fixture();
    let carrying = |name: &str, set: &str, version: &str| {
        let mut namespace = hub_namespace(set);
        namespace["metadata"]["name"] = json!(name);
        namespace["metadata"]["uid"] = json!(format!("u-{name}"));
        namespace["metadata"]["resourceVersion"] = json!(version);
        namespace
    };
    for (name, set) in [("ns-b", "dfw"), ("ns-c", "lhr")] {
        index.hub_has(TableId::Namespaces, &carrying(name, set, "5"));
    }
    for city in ["DFW", "FRA"] {
        index.shop_has(TableId::DEPLOYMENTS, &fixture::source(city, city));
    }
    let full = decided(&index, &observe(&index, HUB).unwrap(), now);
    assert!(full.limited, "dfw and lhr are two");
    let told = note_limit(&mut index, HUB, true);
    assert_eq!(told.len(), 2);
    assert_eq!(note_limit(&mut index, HUB, true), [], "it is no news");
    let key = index.source_key(KindId::FIRST, &fixture::shop(), "default", "FRA");
    let seen = crate::federator::observe::observe(&index, &key, &fixture::shop()).unwrap();
    assert!(seen.readiness.is_limited);
    let enqueued = index.hub_has(TableId::Namespaces, &carrying("ns-c", "dfw", "6"));
    assert!(enqueued.contains(&index.hub_key(TableId::Namespaces, "", HUB)));
    let room = decided(&index, &observe(&index, HUB).unwrap(), now);
    assert!(!room.limited);
    assert_eq!(reasons(&room), ["create_city_set", "move_namespace"]);
    // Another project's sets do not count.
    let mut others = carrying("ns-d", "lhr", "5");
    others["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!("cluster-other");
    index.hub_has(TableId::Namespaces, &others);
    assert!(!decided(&index, &observe(&index, HUB).unwrap(), now).limited);
}

#[tokio::test]
async fn a_code_without_a_cell_enters_no_set_and_a_cell_that_leaves_takes_none_out() {
    let mut index = GatewayIndex::fixture();
    let (web, key) = (
        fixture::source("web", "XYZ"),
        index.source_key(KindId::FIRST, &fixture::shop(), "default", "web"),
    );
    index.shop_has(TableId::DEPLOYMENTS, &web);
    let in_use = |index: &GatewayIndex| {
        let seen = observe(index, HUB).unwrap();
        seen.in_use.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let refused = |index: &GatewayIndex| {
        crate::federator::observe::observe(index, &key, &fixture::shop())
            .unwrap()
            .readiness
            .has_no_cell
    };
    assert!(in_use(&index).is_empty() && refused(&index));
    let cell = fixture::cluster("XYZ");
    let enqueued = index.hub_has(TableId::Clusters, &cell);
    assert!(enqueued.contains(&key), "it heals by event");
    assert_eq!((in_use(&index), refused(&index)), (vec!["XYZ".to_owned()], false));
    let mut placed = hub_namespace("xyz");
    placed["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &placed);
    index.hub_lost(TableId::Clusters, &cell);
    assert_eq!((in_use(&index), refused(&index)), (vec!["XYZ".to_owned()], false));
}

#[tokio::test]
async fn sets_that_are_being_sent_count_and_what_was_not_applied_makes_room_again() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut index = GatewayIndex::fixture();
    for (name, city) in [("web", "DFW"), ("api", "FRA")] {
        index.shop_has(TableId::DEPLOYMENTS, &fixture::source(name, city));
    }
    let shop = index.owners[HUB].project.label();
    let limited = |index: &GatewayIndex| decided(index, &observe(index, HUB).unwrap(), now).limited;
    let sent = |index: &mut GatewayIndex, hub: &str, project: &str, set: &str| {
        let entry = (project.into(), set.into());
        index.intents.moving.insert(hub.into(), entry);
    };
    assert!(!limited(&index), "its own set is given up for the new one");
    sent(&mut index, "ns-b", &shop, "lhr");
    assert!(!limited(&index), "that is the second");
    sent(&mut index, "ns-c", &shop, "iad");
    assert!(limited(&index), "lhr, iad and the new one are three");
    sent(&mut index, "ns-c", "cluster-other", "iad");
    assert!(!limited(&index), "it is another project's");
    sent(&mut index, "ns-c", &shop, "dfw-fra");
    assert!(!limited(&index), "it is the same set");
    sent(&mut index, "ns-c", &shop, "iad");
    note_limit(&mut index, HUB, true);
    assert_eq!(sets::arrived(&mut index, "ns-b", true), [], "the Namespace tells");
    let waiting = index.hub_key(TableId::Namespaces, "", HUB);
    assert_eq!(sets::arrived(&mut index, "ns-c", false), [waiting]);
    sent(&mut index, HUB, &shop, "fra");
    assert_eq!(
        sets::arrived(&mut index, HUB, false),
        [],
        "it has a pause of its own"
    );
    assert!(index.intents.moving.is_empty() && !limited(&index));
}

#[tokio::test]
async fn a_namespace_that_waits_for_room_is_put_back_where_it_was_all_the_same() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut index = GatewayIndex::fixture();
    note_set(&mut index, HUB, true);
    for (name, city) in [("web", "DFW"), ("api", "FRA")] {
        index.shop_has(TableId::DEPLOYMENTS, &fixture::source(name, city));
    }
    let mut edited = hub_namespace("syd");
    edited["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &edited);
    let seen = observe(&index, HUB).unwrap();
    let d = sets::decided(&index, &seen, LINGER, 1, now);
    assert!(!d.limited, "its own set is given up");
    for (name, set) in [("ns-b", "syd"), ("ns-c", "dfw")] {
        let mut other = hub_namespace(set);
        other["metadata"]["name"] = json!(name);
        other["metadata"]["uid"] = json!(format!("u-{name}"));
        index.hub_has(TableId::Namespaces, &other);
    }
    let d = sets::decided(&index, &seen, LINGER, 2, now);
    assert!(d.limited);
    let Some(Write::Merge { patch }) = d.plan.effects.last().map(|e| &e.write) else {
        panic!("{d:?}")
    };
    assert_eq!(patch["metadata"]["labels"][keys::CITIES], "dfw");
}

#[tokio::test]
async fn while_clusters_are_not_seen_no_city_is_left_and_what_was_carried_is_not_denied() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let due = Now {
        instant: now.instant + LINGER,
        ..now
    };
    let mut index = GatewayIndex::fixture();
    let mut both = hub_namespace("dfw-lhr");
    both["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &both);
    index.hub_has(TableId::DEPLOYMENTS, &fixture::copy("web", "DFW"));
    for name in ["web", "new"] {
        index.shop_has(TableId::DEPLOYMENTS, &fixture::source(name, "XYZ"));
    }
    let seen = |index: &GatewayIndex, name: &str| {
        let key = index.source_key(KindId::FIRST, &fixture::shop(), "default", name);
        crate::federator::observe::observe(index, &key, &fixture::shop()).unwrap()
    };
    let narrowed = |index: &GatewayIndex| {
        let mut s = observe(index, HUB).unwrap();
        s.left = decided(index, &s, now).left;
        !decided(index, &s, due).narrowed.is_empty()
    };
    assert!(narrowed(&index) && seen(&index, "web").readiness.has_no_cell);
    index.hub_event(TableId::Clusters, WatchEvent::Failed);
    assert!(!narrowed(&index));
    let web = seen(&index, "web");
    assert!(
        !web.readiness.has_no_cell && web.readiness.is_unproven,
        "it may have a cell by now"
    );
    assert!(seen(&index, "new").readiness.has_no_cell, "it was never carried");
    index.hub_event(TableId::Clusters, WatchEvent::Resumed);
    assert!(narrowed(&index) && seen(&index, "web").readiness.has_no_cell);
}
