//! What events change in the index, and whom they wake.

mod answers;
mod digests;
mod noted;
mod proof;
mod withheld;
mod woken;

use super::{
    fixture::{self, HUB, city_set, namespace, shop},
    *,
};
use crate::plane::watch::Event;
use serde_json::json;

#[test]
fn the_end_of_a_city_sets_policy_wakes_those_that_are_to_carry_it() {
    let mut world = World::fixture();
    let mut policy = city_set("cities-lhr", &["LHR"]);
    let key = world.hub_key(Role::Namespaces, "", HUB);
    world.shop_has(Role::Namespaces, &namespace("other", "b2", &json!({})));
    world.hub_has(Role::CitySets, &policy);
    let lost = world.hub_lost(Role::CitySets, &policy);
    assert!(!lost.iter().any(|k| k.kind == key.kind), "nobody wants it");
    policy["metadata"]["uid"] = json!("again");
    policy["metadata"]["resourceVersion"] = json!("7");
    world.hub_has(Role::CitySets, &policy);
    world.left_at.want(&HUB.into(), Some(&"lhr".into()));
    let lost = world.hub_lost(Role::CitySets, &policy);
    let woken: Vec<_> = lost.iter().filter(|k| k.kind == key.kind).collect();
    assert_eq!(woken, [&key], "the other one does not want it");
}

#[test]
fn a_project_whose_mark_comes_late_is_looked_at_as_a_whole() {
    let mut world = World::fixture();
    world.engage(shop());
    let ours = [namespace("default", "a1", &json!({}))];
    for role in world.project_roles() {
        world.list_shop(role, if role == Role::Namespaces { &ours } else { &[] });
    }
    assert!(!world.project_ready(&shop()));
    let applied = |world: &mut World, name: &str, uid: &str| {
        let object = serde_json::from_value(namespace(name, uid, &json!({}))).unwrap();
        let event = Event::Applied(Box::new(object));
        world.project_event(&shop(), Role::Namespaces, event).synced
    };
    assert!(!applied(&mut world, "other", "o1"));
    assert!(applied(&mut world, "kube-system", "p1"));
    assert!(world.project_ready(&shop()));
    assert!(!applied(&mut world, "another", "o2"));
}

#[test]
fn a_city_set_goes_where_its_name_says_whatever_becomes_of_its_policy() {
    let mut world = World::fixture();
    let cities = |world: &World, set: &str| world.cities_of_set(set).map(|cities| cities.len());
    assert_eq!(cities(&world, "dfw-lhr"), Some(2));
    let lower = [CityCode::parse("dfw").unwrap()].into();
    let hashed = names::city_set(&lower).unwrap();
    let policy = city_set(&format!("cities-{hashed}"), &["dfw"]);
    assert_eq!(cities(&world, &hashed), None);
    world.hub_has(Role::CitySets, &policy);
    let mut carrying = fixture::hub_namespace(&hashed);
    carrying["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &carrying);
    world.hub_lost(Role::CitySets, &policy);
    assert_eq!(cities(&world, &hashed), Some(1));
    let mut moved = fixture::hub_namespace("dfw");
    moved["metadata"]["resourceVersion"] = json!("7");
    world.hub_has(Role::Namespaces, &moved);
    assert!(world.sets.is_empty(), "neither policy nor label is left");
    let wider = city_set("cities-dfw", &["AMS", "DFW"]);
    world.hub_has(Role::CitySets, &wider);
    let row = world.hub.city_sets.get("", "cities-dfw").unwrap();
    assert_eq!(
        (&row.digest.cities, row.digest.exact),
        (&None, false),
        "its values were edited"
    );
    let snapshot = crate::gateway::namespaces::observe(&world, HUB).unwrap();
    assert_eq!(snapshot.current, Some([CityCode::parse("DFW").unwrap()].into()));
}

#[test]
fn a_companion_that_is_released_wakes_whom_it_named() {
    let mut world = World::fixture();
    let (web, other) = (fixture::source("web", "DFW"), fixture::source("other", "DFW"));
    world.shop_has(Role::Federated(0), &web);
    world.shop_has(Role::Federated(0), &other);
    let companion = fixture::companion("db", &json!(["default/web"]));
    world.hub_has(Role::Secrets, &companion);
    let woken = world.hub_lost(Role::Secrets, &companion);
    let key = |name: &str| world.source_key(0, &shop(), "default", name);
    assert_eq!(
        (woken.contains(&key("web")), woken.contains(&key("other"))),
        (true, false)
    );
}

#[test]
fn a_name_that_cannot_travel_announces_no_city() {
    let mut world = World::fixture();
    for (length, cities) in [(64, 0), (63, 1)] {
        let source = fixture::source(&"x".repeat(length), "DFW");
        world.shop_has(Role::Federated(0), &source);
        assert_eq!(world.cities_of_kind(0, HUB).len(), cities, "{length}");
    }
}

#[test]
fn a_project_that_comes_back_is_remembered_by_nothing() {
    let mut world = World::fixture();
    let (hub, city): (Arc<str>, _) = (HUB.into(), CityCode::parse("LHR").unwrap());
    let key = world.hub_key(Role::CityPolicies, HUB, "");
    let note = |world: &mut World| {
        world
            .left
            .insert(hub.clone(), [(city.clone(), Instant::now())].into());
        let companion = (CompanionKind::Secret, hub.clone(), "db".into());
        world.taken.insert(companion);
        world.refused.insert(key.clone(), "no".into());
    };
    let noted = |world: &World| (world.left.len(), world.taken.len(), world.refused.len());
    note(&mut world);
    world.forget_untied();
    assert_eq!(noted(&world), (1, 1, 1), "it is engaged");
    world.disengage(&shop());
    world.engage(shop());
    assert_eq!(noted(&world), (0, 0, 0));
    note(&mut world);
    world.forget_untied();
    assert_eq!(noted(&world), (0, 0, 0));
}

#[test]
fn a_workload_that_came_before_its_namespace_or_waits_for_a_name_is_woken() {
    let mut world = World::fixture();
    let workload = |namespace: &str| fixture::object(namespace, "shop", &format!("w-{namespace}"));
    let key = |world: &World, namespace: &str| world.workload_key(&shop(), namespace, "shop");
    world.shop_has(Role::Workloads, &workload("late"));
    let woken = world.shop_has(Role::Namespaces, &namespace("late", "l1", &json!({})));
    assert!(woken.contains(&key(&world, "late")));

    world.shop_has(Role::Workloads, &workload("default"));
    for (name, waits) in [("shop-all-dfw", true), ("shops-all-dfw", false)] {
        let mut earlier = fixture::source(name, "DFW");
        earlier["metadata"]["ownerReferences"] = json!([{"apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "Workload", "name": "shop", "uid": "w-before", "controller": true}]);
        let there = world.shop_has(Role::Federated(0), &earlier);
        assert!(!there.contains(&key(&world, "default")));
        let gone = world.shop_lost(Role::Federated(0), &earlier);
        assert_eq!(gone.contains(&key(&world, "default")), waits, "{name}");
    }
}

#[test]
fn what_two_projects_of_one_uid_left_unproven_is_woken_when_one_leaves() {
    let mut world = World::fixture();
    let staging = ProjectKey::parse("staging").unwrap();
    world.engage(staging.clone());
    for role in world.project_roles() {
        let mark = [namespace("kube-system", "p1", &json!({}))];
        let objects = if role == Role::Namespaces { &mark[..] } else { &[] };
        fixture::list(objects, |event| world.project_event(&staging, role, event));
    }
    world.shop_lost(Role::Namespaces, &namespace("default", "a1", &json!({})));
    assert!(!crate::gateway::garbage::proven_gone(&world, HUB));
    let woken = world.disengage(&staging).keys;
    assert!(crate::gateway::garbage::proven_gone(&world, HUB));
    assert!(woken.contains(&world.hub_key(Role::Namespaces, "", HUB)));
}

#[test]
fn a_project_that_became_another_is_looked_at_as_a_whole() {
    let mut world = World::fixture();
    let mark = namespace("kube-system", "p2", &json!({}));
    let mut newer = mark.clone();
    newer["metadata"]["resourceVersion"] = json!("9");
    let event = Event::Applied(Box::new(serde_json::from_value(newer).unwrap()));
    assert!(world.project_event(&shop(), Role::Namespaces, event).synced);
}

#[test]
fn the_end_of_what_is_in_an_untied_hub_namespace_wakes_it() {
    let mut world = World::fixture();
    let untied = |mut object: serde_json::Value| {
        object["metadata"]["namespace"] = json!("ns-b2");
        object
    };
    for (role, object) in [
        (Role::Federated(0), fixture::copy("web", "DFW")),
        (Role::WrittenBack(0), fixture::object("ns-b2", "web-0", "u-i")),
        (Role::Bindings, fixture::binding("web")),
        (Role::CityPolicies, fixture::city_policy("city-dfw", "DFW")),
        (
            Role::ConfigMaps,
            fixture::companion("settings", &json!(["default/web"])),
        ),
        (Role::Secrets, fixture::companion("db", &json!(["default/web"]))),
    ] {
        let object = untied(object);
        world.hub_has(role, &object);
        let woken = world.hub_lost(role, &object);
        assert!(
            woken.contains(&world.hub_key(Role::Namespaces, "", "ns-b2")),
            "{role:?}"
        );
    }
}
