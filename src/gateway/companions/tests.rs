//! Who wants a companion, as the index shows it.

use super::*;
use crate::gateway::world::fixture::{HUB, binding, companion, copy, leaving, shop, source};
use serde_json::{Value, json};

fn wanted(world: &World) -> Vec<String> {
    let snapshot = observe(world, CompanionKind::Secret, HUB, "db").unwrap();
    snapshot.wanted_by.into_iter().collect()
}

/// A world with companion `db` of deployment `web`, delivered.
fn delivered(referenced_by: &Value) -> World {
    let mut world = World::fixture();
    world.hub_has(Role::Federated(0), &copy("web", "DFW"));
    world.hub_has(Role::Bindings, &binding("web"));
    world.hub_has(Role::Secrets, &companion("db", referenced_by));
    world
}

#[test]
fn a_deployment_that_vanished_keeps_its_companions_until_copy_and_binding_are_gone() {
    let mut world = delivered(&json!(["default/never", "default/web", "other/web"]));
    let key = world.hub_key(Role::Secrets, HUB, "db");
    world.list_shop(Role::Secrets, &[]);
    assert_eq!(wanted(&world), ["default/web"]);
    assert!(
        world
            .hub_lost(Role::Federated(0), &copy("web", "DFW"))
            .contains(&key)
    );
    assert_eq!(wanted(&world), ["default/web"], "its binding still delivers");
    assert!(world.hub_lost(Role::Bindings, &binding("web")).contains(&key));
    assert_eq!(wanted(&world), [""; 0]);
}

#[test]
fn a_namespace_that_is_proven_gone_keeps_them_as_long() {
    let mut world = delivered(&json!(["default/web"]));
    world.list_shop(
        Role::Namespaces,
        &[crate::gateway::world::fixture::namespace(
            "kube-system",
            "p1",
            &json!({}),
        )],
    );
    assert_eq!(wanted(&world), ["default/web"]);
    world.hub_lost(Role::Federated(0), &copy("web", "DFW"));
    assert_eq!(wanted(&world), ["default/web"], "its binding still delivers");
    world.hub_lost(Role::Bindings, &binding("web"));
    assert_eq!(wanted(&world), [""; 0]);
}

#[test]
fn a_list_without_it_or_a_copy_of_nobody_holds_nothing() {
    let mut world = delivered(&json!(["default/web"]));
    let mut live = source("web", "DFW");
    live["metadata"]["annotations"]["compute.datumapis.com/expected-referenced-data"] = json!("[]");
    world.shop_has(Role::Federated(0), &live);
    assert_eq!(wanted(&world), [""; 0], "its list no longer has it");
    world.shop_lost(Role::Federated(0), &live);
    world.hub_lost(Role::Federated(0), &copy("web", "DFW"));
    let mut nobodys = copy("web", "DFW");
    nobodys["metadata"]["uid"] = json!("c-other");
    nobodys["metadata"]["labels"] = json!({});
    nobodys["metadata"]["annotations"] = json!({});
    world.hub_has(Role::Federated(0), &nobodys);
    assert_eq!(wanted(&world), [""; 0]);
    assert_eq!(world.ties[HUB].project, shop());
    let mut gone = leaving("web", "DFW");
    gone["metadata"]["uid"] = json!("u-later");
    world.shop_has(Role::Federated(0), &gone);
    assert_eq!(
        wanted(&world),
        [""; 0],
        "leaving, and nothing of it is on the hub"
    );
}
