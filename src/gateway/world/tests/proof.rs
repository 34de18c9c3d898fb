//! Which list holds up what: carrying, every decision, or that absence proves something.

use super::fixture::{HUB, copy, leaving, shop, source};
use super::*;
use crate::api::keys;

/// A table's list begins anew, or its watch fails.
macro_rules! troubles {
    ($($table:tt)+) => {
        [
            (|w: &mut World| w.$($table)+.rewind()) as fn(&mut World),
            |w: &mut World| w.$($table)+.set_failing(true),
        ]
    };
}

#[test]
fn each_list_of_the_hub_holds_up_what_needs_it() {
    let said = |world: &World| (world.hub_carries(), world.hub_ready(), world.hub_proves());
    assert_eq!(said(&World::fixture()), (true, true, true));
    for (name, [rewind, fail], carries, ready) in [
        ("namespaces", troubles!(hub.namespaces), false, false),
        ("city_sets", troubles!(hub.city_sets), false, false),
        ("city_policies", troubles!(hub.city_policies), false, false),
        ("config_maps", troubles!(hub.config_maps), false, false),
        ("secrets", troubles!(hub.secrets), false, false),
        ("copies", troubles!(hub.copies[0]), false, false),
        ("bindings", troubles!(hub.bindings), true, false),
        ("write_backs", troubles!(hub.write_backs[0]), true, false),
        ("clusters", troubles!(hub.clusters), true, true),
    ] {
        let mut world = World::fixture();
        fail(&mut world);
        assert_eq!(said(&world), (true, true, false), "{name} fails");
        assert_eq!(world.lacks_proof(HUB), Some(Plane::Hub), "{name}");
        let mut world = World::fixture();
        rewind(&mut world);
        assert_eq!(said(&world), (carries, ready, false), "{name} begins anew");
        assert_eq!(world.is_complete(&shop()), ready, "{name}");
        assert_eq!(world.carries(&shop()), carries, "{name}");
        assert_eq!(world.others_may_list(&Plane::Hub), carries, "{name}");
    }
}

macro_rules! of_shop {
    ($($table:tt)+) => {
        [
            (|w: &mut World| w.projects.get_mut(&shop()).unwrap().$($table)+.rewind()) as fn(&mut World),
            |w: &mut World| w.projects.get_mut(&shop()).unwrap().$($table)+.set_failing(true),
        ]
    };
}

#[test]
fn each_list_of_a_project_holds_up_what_needs_it() {
    let said = |world: &World| {
        let key = &shop();
        (
            world.project_carries(key),
            world.project_ready(key),
            world.project_proves(key),
        )
    };
    assert_eq!(said(&World::fixture()), (true, true, true));
    assert_eq!(World::fixture().lacks_proof(HUB), None);
    for (name, [rewind, fail], carries) in [
        ("namespaces", of_shop!(namespaces), false),
        ("sources", of_shop!(sources[0]), false),
        ("workloads", of_shop!(workloads), true),
        ("projections", of_shop!(projections[0]), true),
    ] {
        let plane = Plane::Project(shop());
        let mut world = World::fixture();
        fail(&mut world);
        assert_eq!(said(&world), (true, true, false), "{name} fails");
        assert_eq!(world.lacks_proof(HUB), Some(plane.clone()), "{name}");
        let mut world = World::fixture();
        rewind(&mut world);
        assert_eq!(said(&world), (carries, false, false), "{name} begins anew");
        assert!(!world.is_complete(&shop()));
        assert_eq!(world.carries(&shop()), carries, "{name}");
        assert_eq!(world.others_may_list(&plane), carries, "{name}");
    }
    let mut nameless = World::fixture();
    nameless.projects.get_mut(&shop()).unwrap().uid = None;
    assert_eq!(said(&nameless), (false, false, false));
}

#[test]
fn who_waits_for_a_proof_is_woken_once_it_is_there() {
    for plane in [Plane::Hub, Plane::Project(shop())] {
        let mut world = World::fixture();
        let key = world.hub_key(Role::Namespaces, "", HUB);
        world.await_proof(plane.clone(), &key);
        world.hub.namespaces.set_failing(plane == Plane::Hub);
        let project = world.projects.get_mut(&shop()).unwrap();
        project.namespaces.set_failing(plane != Plane::Hub);
        assert_eq!(world.take_unproven(&plane), [], "{plane}");
        world.hub.namespaces.set_failing(false);
        let project = world.projects.get_mut(&shop()).unwrap();
        project.namespaces.set_failing(false);
        assert_eq!(world.take_unproven(&plane), [key], "{plane}");
        assert_eq!(world.take_unproven(&plane), [], "{plane}: once");
    }
}

#[test]
fn what_is_not_carried_as_it_is_is_known() {
    let uncarried = |object: &serde_json::Value, change: fn(&mut serde_json::Value)| {
        let mut world = World::fixture();
        world.shop_has(Role::Federated(0), object);
        let mut there = copy("web", "DFW");
        change(&mut there);
        world.hub_has(Role::Federated(0), &there);
        let keys = world.uncarried_keys(&Plane::Hub);
        assert_eq!(world.uncarried_keys(&Plane::Project(shop())), keys);
        assert!(keys.iter().all(|key| world.may_carry(key)));
        keys.len()
    };
    let web = source("web", "DFW");
    assert_eq!(uncarried(&web, |_| ()), 0);
    assert_eq!(
        uncarried(&web, |c| c["metadata"]["annotations"][keys::SOURCE_GENERATION] =
            json!("7")),
        1
    );
    assert_eq!(uncarried(&web, |c| c["spec"]["more"] = json!(1)), 1);
    assert_eq!(uncarried(&web, |c| c["metadata"]["name"] = json!("other")), 1);
    assert_eq!(
        uncarried(&leaving("web", "DFW"), |c| c["spec"]["more"] = json!(1)),
        0
    );
}
