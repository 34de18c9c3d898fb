//! Where a hub Namespace goes, as the index shows it.

use crate::gateway::namespaces::{
    decide::{Decision, decide},
    note_set, observe,
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
    let first = decide(&s, LINGER, now);
    assert_eq!(
        (first.plan, first.left.len()),
        (Plan::wait(Next::After(LINGER)), 1)
    );
    s.left = first.left;
    assert_eq!(
        reasons(&decide(&s, LINGER, due)),
        ["create_city_set", "move_namespace"]
    );
    s.unlabelled = true;
    assert_eq!(decide(&s, LINGER, due).plan, Plan::default());
    world.shop_lost(Role::Federated(0), &fixture::source("web", "LHR"));
    let unused = observe(&world, HUB).unwrap();
    assert_eq!(
        decide(&unused, LINGER, due),
        decide(&unused, LINGER, now),
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
    let unused = decide(&observe(&world, HUB).unwrap(), LINGER, now);
    assert_eq!(reasons(&unused), ["create_city_set"]);
    assert_eq!(unused.plan.effects[0].target.name, "cities-dfw-lhr");
    world.shop_has(Role::Federated(0), &fixture::source("web", "DFW"));
    let lingers = decide(&observe(&world, HUB).unwrap(), LINGER, now);
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
    let restored = decide(&observe(&world, HUB).unwrap(), LINGER, now);
    assert_eq!(reasons(&restored), ["move_namespace"]);
    let Write::Merge { patch } = &restored.plan.effects[0].write else {
        panic!("{restored:?}")
    };
    assert_eq!(patch["metadata"]["labels"][keys::CITIES], "dfw");

    note_set(&mut world, HUB, true);
    let ours = decide(&observe(&world, HUB).unwrap(), LINGER, now);
    assert_eq!(
        (ours.plan, ours.left.len()),
        (Plan::wait(Next::After(LINGER)), 1),
        "the same set, written by us, lingers"
    );
}
