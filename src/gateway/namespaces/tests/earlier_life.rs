//! An earlier life of a project in its hub namespace, and its end.

use crate::{
    api::keys,
    gateway::{
        companions,
        namespaces::{earlier_life, observe},
        policies,
        world::{
            Role, World,
            fixture::{self, HUB, namespace, shop},
        },
    },
    kinds::CompanionKind,
};
use serde_json::{Value, json};

/// [`HUB`] in a later version, of a project with this UID.
fn hub(version: &str, project: &str, cities: Option<&str>) -> Value {
    let mut labels = json!({keys::PROJECT_UID: project, keys::UPSTREAM_CLUSTER: shop().label()});
    if let Some(cities) = cities {
        labels[keys::CITIES] = json!(cities);
    }
    let mut hub = namespace(HUB, "u-hub", &labels);
    hub["metadata"]["resourceVersion"] = json!(version);
    hub
}

/// A hub namespace of another project UID whose project namespace is back under the same UID, with a new deployment.
fn world() -> World {
    let mut world = World::fixture();
    let own = [
        namespace("kube-system", "p2", &json!({})),
        namespace("default", "a1", &json!({})),
    ];
    world.list_shop(Role::Namespaces, &own);
    world.list_hub(Role::Namespaces, &[hub("6", "p1", None)]);
    let mut new = fixture::source("web", "DFW");
    new["metadata"]["uid"] = json!("u-new");
    world.list_shop(Role::Federated(0), &[new]);
    world
}

fn copy(source: Option<&str>) -> Value {
    let mut copy = fixture::copy("web", "DFW");
    copy["metadata"]["annotations"] = source.map_or_else(|| json!({}), |uid| json!({keys::SOURCE_UID: uid}));
    copy
}

fn instance(controlled: bool) -> Value {
    let mut instance = fixture::object(HUB, "web-0", "u-instance");
    instance["metadata"]["ownerReferences"] = json!([{"apiVersion": "x/v1", "kind": "WorkloadDeployment",
        "name": "web", "uid": "u", "controller": controlled}]);
    instance
}

fn companion() -> Value {
    fixture::companion("settings", &json!(["default/web"]))
}

#[test]
fn an_earlier_life_lasts_until_all_that_can_be_taken_away_is_gone() {
    let mut world = world();
    assert!(!earlier_life(&world, &shop(), HUB), "the label was edited");
    for (role, one, holds) in [
        (Role::Federated(0), copy(Some("u-dead")), true),
        (Role::Federated(0), copy(None), false),
        (Role::Federated(0), copy(Some("u-new")), false),
        (Role::WrittenBack(0), instance(true), true),
        (Role::WrittenBack(0), instance(false), false),
        (Role::ConfigMaps, companion(), true),
        (Role::Bindings, fixture::binding("web"), true),
    ] {
        world.list_hub(role, std::slice::from_ref(&one));
        assert_eq!(earlier_life(&world, &shop(), HUB), holds, "{one}");
        world.list_hub(role, &[]);
    }
}

#[test]
fn a_write_backs_city_is_held_and_never_brought_in() {
    let mut world = world();
    let in_use = |world: &World| {
        let seen = observe(world, HUB).unwrap();
        seen.in_use.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let written = ["IAD", "LHR"].map(|city| {
        let mut instance = fixture::object(HUB, city, &format!("u-{city}"));
        instance["metadata"]["labels"] = json!({keys::INSTANCE_CITY_CODE: city});
        instance
    });
    world.list_hub(Role::WrittenBack(0), &written);
    assert_eq!(
        in_use(&world),
        ["DFW", "IAD", "LHR"],
        "nothing is known of the set"
    );
    world.list_hub(Role::Namespaces, &[hub("7", "p2", Some("dfw-lhr"))]);
    assert_eq!(in_use(&world), ["DFW", "LHR"]);
}

#[test]
fn an_earlier_lifes_companions_and_policies_go_after_its_copies() {
    let mut world = world();
    let wanted = |world: &World| {
        let seen = companions::observe(world, CompanionKind::ConfigMap, HUB, "settings").unwrap();
        let policies = policies::observe(world, HUB).unwrap();
        assert!(policies.used[0].is_empty(), "the new life waits");
        (seen.wanted_by.len(), policies.needed[0].len())
    };
    world.list_hub(Role::Federated(0), &[copy(Some("u-dead"))]);
    world.list_hub(Role::ConfigMaps, &[companion()]);
    assert_eq!(wanted(&world), (1, 1));
    world.list_hub(Role::Federated(0), &[]);
    assert_eq!(wanted(&world), (0, 0));
}
