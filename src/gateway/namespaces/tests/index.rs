//! Where a hub Namespace goes, as the index shows it.

use crate::gateway::namespaces::{
    decide::{Decision, Snapshot},
    note_set, observe,
    sets::{self, note_limit},
};
use crate::{
    api::keys,
    engine::{
        clock::Now,
        plan::{Next, Plan, Write},
    },
    gateway::world::{
        Role, World,
        fixture::{self, HUB, hub_namespace},
    },
};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

const LINGER: Duration = Duration::from_secs(60);

fn decided(world: &World, s: &Snapshot, now: Now) -> Decision {
    sets::decided(world, s, LINGER, 2, now)
}

fn reasons(d: &Decision) -> Vec<&'static str> {
    d.plan.effects.iter().map(|e| e.reason).collect()
}

/// A Namespace of a set that cannot be read, with a deployment in LHR.
fn unreadable() -> World {
    let mut world = World::fixture();
    let mut namespace = hub_namespace("lower.0123abcd");
    namespace["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &namespace);
    world.shop_has(Role::Federated(0), &fixture::source("web", "LHR"));
    world
}

#[tokio::test]
async fn a_set_that_nobody_can_read_is_left_only_after_the_linger() {
    let mut world = unreadable();
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let due = Now {
        instant: now.instant + LINGER,
        ..now
    };
    let mut s = observe(&world, HUB).unwrap();
    let first = decided(&world, &s, now);
    assert_eq!(
        (first.plan, first.left.len()),
        (Plan::wait(Next::After(LINGER)), 1)
    );
    s.left = first.left;
    assert_eq!(
        reasons(&decided(&world, &s, due)),
        ["create_city_set", "move_namespace"]
    );
    s.unlabelled = true;
    assert_eq!(decided(&world, &s, due).plan, Plan::default());
    world.shop_lost(Role::Federated(0), &fixture::source("web", "LHR"));
    let unused = observe(&world, HUB).unwrap();
    assert_eq!(
        decided(&world, &unused, due),
        decided(&world, &unused, now),
        "without use it is never left"
    );
    assert_eq!((unused.current, unused.left), (None, BTreeMap::new()));
}

#[tokio::test]
async fn a_policy_that_is_gone_is_made_again_for_the_cities_that_linger_or_for_none_in_use() {
    let mut world = World::fixture();
    let mut namespace = hub_namespace("dfw-lhr");
    namespace["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &namespace);
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let unused = decided(&world, &observe(&world, HUB).unwrap(), now);
    assert_eq!(reasons(&unused), ["create_city_set"]);
    assert_eq!(unused.plan.effects[0].target.name, "cities-dfw-lhr");
    world.shop_has(Role::Federated(0), &fixture::source("web", "DFW"));
    let lingers = decided(&world, &observe(&world, HUB).unwrap(), now);
    assert_eq!(reasons(&lingers), ["create_city_set"]);
    assert_eq!(lingers.plan.effects[0].target.name, "cities-dfw-lhr");
}

#[tokio::test]
async fn a_set_that_someone_edits_is_put_back_at_once() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut world = World::fixture();
    world.shop_has(Role::Federated(0), &fixture::source("web", "DFW"));
    for policy in [
        fixture::city_set("cities-dfw", &["DFW"]),
        fixture::city_set("cities-dfw-lhr", &["DFW", "LHR"]),
    ] {
        world.hub_has(Role::CitySets, &policy);
    }
    note_set(&mut world, HUB, false);
    let mut edited = hub_namespace("dfw-lhr");
    edited["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &edited);
    note_set(&mut world, HUB, false);
    let restored = decided(&world, &observe(&world, HUB).unwrap(), now);
    assert_eq!(reasons(&restored), ["move_namespace"]);
    let Write::Merge { patch } = &restored.plan.effects[0].write else {
        panic!("{restored:?}")
    };
    assert_eq!(patch["metadata"]["labels"][keys::CITIES], "dfw");

    note_set(&mut world, HUB, true);
    let ours = decided(&world, &observe(&world, HUB).unwrap(), now);
    assert_eq!(
        (ours.plan, ours.left.len()),
        (Plan::wait(Next::After(LINGER)), 1),
        "the same set, written by us, lingers"
    );
}

#[tokio::test]
async fn a_projects_namespaces_use_so_many_sets_and_one_that_waits_is_woken_by_room() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut world = World::fixture();
    let carrying = |name: &str, set: &str, version: &str| {
        let mut namespace = hub_namespace(set);
        namespace["metadata"]["name"] = json!(name);
        namespace["metadata"]["uid"] = json!(format!("u-{name}"));
        namespace["metadata"]["resourceVersion"] = json!(version);
        namespace
    };
    for (name, set) in [("ns-b", "dfw"), ("ns-c", "lhr")] {
        world.hub_has(Role::Namespaces, &carrying(name, set, "5"));
    }
    for city in ["DFW", "FRA"] {
        world.shop_has(Role::Federated(0), &fixture::source(city, city));
    }
    let full = decided(&world, &observe(&world, HUB).unwrap(), now);
    assert!(full.limited, "dfw and lhr are two");
    let told = note_limit(&mut world, HUB, true);
    assert_eq!(told.len(), 2);
    assert_eq!(note_limit(&mut world, HUB, true), [], "it is no news");
    let key = world.source_key(0, &fixture::shop(), "default", "FRA");
    let seen = crate::gateway::federator::observe::observe(&world, &key, &fixture::shop()).unwrap();
    assert!(seen.limited);
    let woken = world.hub_has(Role::Namespaces, &carrying("ns-c", "dfw", "6"));
    assert!(woken.contains(&world.hub_key(Role::Namespaces, "", HUB)));
    let room = decided(&world, &observe(&world, HUB).unwrap(), now);
    assert!(!room.limited);
    assert_eq!(reasons(&room), ["create_city_set", "move_namespace"]);
    // Another project's sets do not count.
    let mut others = carrying("ns-d", "lhr", "5");
    others["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!("cluster-other");
    world.hub_has(Role::Namespaces, &others);
    assert!(!decided(&world, &observe(&world, HUB).unwrap(), now).limited);
}

#[tokio::test]
async fn a_code_without_a_cell_enters_no_set_and_a_cell_that_leaves_takes_none_out() {
    let mut world = World::fixture();
    let (web, key) = (
        fixture::source("web", "XYZ"),
        world.source_key(0, &fixture::shop(), "default", "web"),
    );
    world.shop_has(Role::Federated(0), &web);
    let in_use = |world: &World| {
        let seen = observe(world, HUB).unwrap();
        seen.in_use.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let refused = |world: &World| {
        crate::gateway::federator::observe::observe(world, &key, &fixture::shop())
            .unwrap()
            .no_cell
    };
    assert!(in_use(&world).is_empty() && refused(&world));
    let cell = fixture::cluster("XYZ");
    let woken = world.hub_has(Role::Clusters, &cell);
    assert!(woken.contains(&key), "it heals by event");
    assert_eq!((in_use(&world), refused(&world)), (vec!["XYZ".to_owned()], false));
    let mut placed = hub_namespace("xyz");
    placed["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &placed);
    world.hub_lost(Role::Clusters, &cell);
    assert_eq!((in_use(&world), refused(&world)), (vec!["XYZ".to_owned()], false));
}
