//! Tests of the changes that events make in the index, and of the keys that they enqueue.

mod answers;
mod digests;
mod enqueued;
mod known_plane;
mod locations;
mod noted;
mod project_hub;
mod proof;
mod summary;
mod undelivered;
mod withheld;

use super::{
    fixture::{self, HUB, city_set, namespace, shop},
    *,
};
use fedgate_engine::plane::watch::WatchEvent;
use fedgate_kinds::KindId;
use serde_json::json;
use tokio::time::Instant;

#[test]
fn the_end_of_a_city_sets_policy_wakes_those_that_are_to_carry_it() {
    let mut index = GatewayIndex::fixture();
    let mut policy = city_set("cities-lhr", &["LHR"]);
    let key = index.hub_key(TableId::Namespaces, "", HUB);
    index.shop_has(TableId::Namespaces, &namespace("other", "b2", &json!({})));
    index.hub_has(TableId::CitySets, &policy);
    let lost = index.hub_lost(TableId::CitySets, &policy);
    assert!(!lost.iter().any(|k| k.kind == key.kind), "nobody wants it");
    policy["metadata"]["uid"] = json!("again");
    policy["metadata"]["resourceVersion"] = json!("7");
    index.hub_has(TableId::CitySets, &policy);
    index.intents.deliveries.want(&HUB.into(), Some(&"lhr".into()));
    let lost = index.hub_lost(TableId::CitySets, &policy);
    let enqueued: Vec<_> = lost.iter().filter(|k| k.kind == key.kind).collect();
    assert_eq!(enqueued, [&key], "the other one does not want it");
}

#[test]
fn a_project_whose_mark_comes_late_is_looked_at_as_a_whole() {
    let mut index = GatewayIndex::fixture();
    index.engage(shop());
    let ours = [namespace("default", "a1", &json!({}))];
    for table in index.project_tables() {
        index.list_shop(table, if table == TableId::Namespaces { &ours } else { &[] });
    }
    assert!(!index.project_ready(&shop()));
    let applied = |index: &mut GatewayIndex, name: &str, uid: &str| {
        let object = serde_json::from_value(namespace(name, uid, &json!({}))).unwrap();
        let event = WatchEvent::Apply(Box::new(object));
        index.project_event(&shop(), TableId::Namespaces, event).synced
    };
    assert!(!applied(&mut index, "other", "o1"));
    assert!(applied(&mut index, "kube-system", "p1"));
    assert!(index.project_ready(&shop()));
    assert!(!applied(&mut index, "another", "o2"));
}

#[test]
fn a_city_set_goes_where_its_name_says_whatever_becomes_of_its_policy() {
    let mut index = GatewayIndex::fixture();
    let cities = |index: &GatewayIndex, set: &str| index.cities_of_set(set).map(|cities| cities.len());
    assert_eq!(cities(&index, "dfw-lhr"), Some(2));
    let lower = [CityCode::parse("dfw").unwrap()].into();
    let hashed = names::city_set(&lower).unwrap();
    let policy = city_set(&format!("cities-{hashed}"), &["dfw"]);
    assert_eq!(cities(&index, &hashed), None);
    index.hub_has(TableId::CitySets, &policy);
    let mut carrying = fixture::hub_namespace(&hashed);
    carrying["metadata"]["resourceVersion"] = json!("6");
    index.hub_has(TableId::Namespaces, &carrying);
    index.hub_lost(TableId::CitySets, &policy);
    assert_eq!(cities(&index, &hashed), Some(1));
    let mut moved = fixture::hub_namespace("dfw");
    moved["metadata"]["resourceVersion"] = json!("7");
    index.hub_has(TableId::Namespaces, &moved);
    assert!(index.hub.sets.is_empty(), "neither policy nor label is left");
    let wider = city_set("cities-dfw", &["AMS", "DFW"]);
    index.hub_has(TableId::CitySets, &wider);
    let row = index.hub.city_sets.get("", "cities-dfw").unwrap();
    assert_eq!(
        (&row.digest.cities, row.digest.exact),
        (&None, false),
        "its values were edited"
    );
    let snapshot = crate::namespaces::observe(&index, HUB).unwrap();
    assert_eq!(snapshot.current, Some([CityCode::parse("DFW").unwrap()].into()));
}

#[test]
fn a_companion_that_is_released_wakes_whom_it_named() {
    let mut index = GatewayIndex::fixture();
    let (web, other) = (fixture::source("web", "DFW"), fixture::source("other", "DFW"));
    index.shop_has(TableId::DEPLOYMENTS, &web);
    index.shop_has(TableId::DEPLOYMENTS, &other);
    let companion = fixture::companion("db", &json!(["default/web"]));
    index.hub_has(TableId::SECRETS, &companion);
    let enqueued = index.hub_lost(TableId::SECRETS, &companion);
    let key = |name: &str| index.source_key(KindId::FIRST, &shop(), "default", name);
    assert_eq!(
        (enqueued.contains(&key("web")), enqueued.contains(&key("other"))),
        (true, false)
    );
}

#[test]
fn a_name_that_cannot_travel_announces_no_city() {
    let mut index = GatewayIndex::fixture();
    for (length, cities) in [(64, 0), (63, 1)] {
        let source = fixture::source(&"x".repeat(length), "DFW");
        index.shop_has(TableId::DEPLOYMENTS, &source);
        assert_eq!(index.cities_of_kind(KindId::FIRST, HUB).len(), cities, "{length}");
    }
}

#[test]
fn a_project_that_comes_back_is_remembered_by_nothing() {
    let mut index = GatewayIndex::fixture();
    let (hub, city): (Arc<str>, _) = (HUB.into(), CityCode::parse("LHR").unwrap());
    let key = index.hub_key(TableId::CityPolicies, HUB, "");
    let note = |index: &mut GatewayIndex| {
        index
            .intents
            .lingering
            .insert(hub.clone(), [(city.clone(), Instant::now())].into());
        let companion = (CompanionKind::SECRET, hub.clone(), "db".into());
        index.intents.name_taken.insert(companion);
        index.intents.refused.insert(key.clone(), "no".into());
    };
    let noted = |index: &GatewayIndex| {
        (
            index.intents.lingering.len(),
            index.intents.name_taken.len(),
            index.intents.refused.len(),
        )
    };
    note(&mut index);
    index.prune_unowned();
    assert_eq!(noted(&index), (1, 1, 1), "it is engaged");
    index.disengage(&shop());
    index.engage(shop());
    assert_eq!(noted(&index), (0, 0, 0));
    note(&mut index);
    index.prune_unowned();
    assert_eq!(noted(&index), (0, 0, 0));
}

#[test]
fn a_workload_that_came_before_its_namespace_or_waits_for_a_name_is_woken() {
    let mut index = GatewayIndex::fixture();
    let workload = |namespace: &str| fixture::object(namespace, "shop", &format!("w-{namespace}"));
    let key = |index: &GatewayIndex, namespace: &str| index.workload_key(&shop(), namespace, "shop");
    index.shop_has(TableId::Workloads, &workload("late"));
    let enqueued = index.shop_has(TableId::Namespaces, &namespace("late", "l1", &json!({})));
    assert!(enqueued.contains(&key(&index, "late")));

    index.shop_has(TableId::Workloads, &workload("default"));
    for (name, waits) in [("shop-all-dfw", true), ("shops-all-dfw", false)] {
        let mut earlier = fixture::source(name, "DFW");
        earlier["metadata"]["ownerReferences"] = json!([{"apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "Workload", "name": "shop", "uid": "w-before", "controller": true}]);
        let there = index.shop_has(TableId::DEPLOYMENTS, &earlier);
        assert!(!there.contains(&key(&index, "default")));
        let gone = index.shop_lost(TableId::DEPLOYMENTS, &earlier);
        assert_eq!(gone.contains(&key(&index, "default")), waits, "{name}");
    }
}

#[test]
fn what_two_projects_of_one_uid_left_unproven_is_woken_when_one_leaves() {
    let mut index = GatewayIndex::fixture();
    let staging = ProjectKey::parse("staging").unwrap();
    index.engage(staging.clone());
    for table in index.project_tables() {
        let mark = [namespace("kube-system", "p1", &json!({}))];
        let objects = if table == TableId::Namespaces {
            &mark[..]
        } else {
            &[]
        };
        fixture::list(objects, |event| index.project_event(&staging, table, event));
    }
    index.shop_lost(TableId::Namespaces, &namespace("default", "a1", &json!({})));
    assert!(!crate::queries::lifecycle::proven_gone(&index, HUB));
    let enqueued = index.disengage(&staging);
    let enqueued = enqueued.keys(&index);
    assert!(crate::queries::lifecycle::proven_gone(&index, HUB));
    assert!(enqueued.contains(&index.hub_key(TableId::Namespaces, "", HUB)));
}

#[test]
fn a_project_that_became_another_is_looked_at_as_a_whole() {
    let mut index = GatewayIndex::fixture();
    let mark = namespace("kube-system", "p2", &json!({}));
    let mut newer = mark.clone();
    newer["metadata"]["resourceVersion"] = json!("9");
    let event = WatchEvent::Apply(Box::new(serde_json::from_value(newer).unwrap()));
    assert!(index.project_event(&shop(), TableId::Namespaces, event).synced);
}

#[test]
fn the_end_of_what_is_in_an_untied_hub_namespace_wakes_it() {
    let mut index = GatewayIndex::fixture();
    let untied = |mut object: serde_json::Value| {
        object["metadata"]["namespace"] = json!("ns-b2");
        object
    };
    for (table, object) in [
        (TableId::DEPLOYMENTS, fixture::copy("web", "DFW")),
        (TableId::INSTANCES, fixture::object("ns-b2", "web-0", "u-i")),
        (TableId::Bindings, fixture::binding("web")),
        (TableId::CityPolicies, fixture::city_policy("city-dfw", "DFW")),
        (
            TableId::CONFIG_MAPS,
            fixture::companion("settings", &json!(["default/web"])),
        ),
        (
            TableId::SECRETS,
            fixture::companion("db", &json!(["default/web"])),
        ),
    ] {
        let object = untied(object);
        index.hub_has(table, &object);
        let enqueued = index.hub_lost(table, &object);
        assert!(
            enqueued.contains(&index.hub_key(TableId::Namespaces, "", "ns-b2")),
            "{table:?}"
        );
    }
}
