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
    plane::watch::Event,
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

#[tokio::test]
async fn sets_that_are_being_sent_count_and_what_was_not_applied_makes_room_again() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut world = World::fixture();
    for (name, city) in [("web", "DFW"), ("api", "FRA")] {
        world.shop_has(Role::Federated(0), &fixture::source(name, city));
    }
    let shop = world.ties[HUB].project.label();
    let limited = |world: &World| decided(world, &observe(world, HUB).unwrap(), now).limited;
    let sent = |world: &mut World, hub: &str, project: &str, set: &str| {
        let entry = (project.into(), set.into());
        world.moving.insert(hub.into(), entry);
    };
    assert!(!limited(&world), "its own set is given up for the new one");
    sent(&mut world, "ns-b", &shop, "lhr");
    assert!(!limited(&world), "that is the second");
    sent(&mut world, "ns-c", &shop, "iad");
    assert!(limited(&world), "lhr, iad and the new one are three");
    sent(&mut world, "ns-c", "cluster-other", "iad");
    assert!(!limited(&world), "it is another project's");
    sent(&mut world, "ns-c", &shop, "dfw-fra");
    assert!(!limited(&world), "it is the same set");
    sent(&mut world, "ns-c", &shop, "iad");
    note_limit(&mut world, HUB, true);
    assert_eq!(sets::arrived(&mut world, "ns-b", true), [], "the Namespace tells");
    let waiting = world.hub_key(Role::Namespaces, "", HUB);
    assert_eq!(sets::arrived(&mut world, "ns-c", false), [waiting]);
    assert!(world.moving.is_empty() && !limited(&world));
}

#[tokio::test]
async fn a_namespace_that_waits_for_room_is_put_back_where_it_was_all_the_same() {
    let now = Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    };
    let mut world = World::fixture();
    note_set(&mut world, HUB, true);
    for (name, city) in [("web", "DFW"), ("api", "FRA")] {
        world.shop_has(Role::Federated(0), &fixture::source(name, city));
    }
    let mut edited = hub_namespace("syd");
    edited["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &edited);
    let seen = observe(&world, HUB).unwrap();
    let d = sets::decided(&world, &seen, LINGER, 1, now);
    assert!(!d.limited, "its own set is given up");
    for (name, set) in [("ns-b", "syd"), ("ns-c", "dfw")] {
        let mut other = hub_namespace(set);
        other["metadata"]["name"] = json!(name);
        other["metadata"]["uid"] = json!(format!("u-{name}"));
        world.hub_has(Role::Namespaces, &other);
    }
    let d = sets::decided(&world, &seen, LINGER, 2, now);
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
    let mut world = World::fixture();
    let mut both = hub_namespace("dfw-lhr");
    both["metadata"]["resourceVersion"] = json!("6");
    world.hub_has(Role::Namespaces, &both);
    world.hub_has(Role::Federated(0), &fixture::copy("web", "DFW"));
    for name in ["web", "new"] {
        world.shop_has(Role::Federated(0), &fixture::source(name, "XYZ"));
    }
    let seen = |world: &World, name: &str| {
        let key = world.source_key(0, &fixture::shop(), "default", name);
        crate::gateway::federator::observe::observe(world, &key, &fixture::shop()).unwrap()
    };
    let narrowed = |world: &World| {
        let mut s = observe(world, HUB).unwrap();
        s.left = decided(world, &s, now).left;
        !decided(world, &s, due).narrowed.is_empty()
    };
    assert!(narrowed(&world) && seen(&world, "web").no_cell);
    world.hub_event(Role::Clusters, Event::Failed);
    assert!(!narrowed(&world));
    let web = seen(&world, "web");
    assert!(!web.no_cell && web.cell_unproven, "it may have a cell by now");
    assert!(seen(&world, "new").no_cell, "it was never carried");
    world.hub_event(Role::Clusters, Event::Resumed);
    assert!(narrowed(&world) && seen(&world, "web").no_cell);
}
