//! Tests of the lists that each step waits for: syncing specs, all decisions, absence as proof.

use super::fixture::{HUB, copy, leaving, shop, source};
use super::*;
use fedgate_api::keys;
use fedgate_kinds::{CompanionKind, KindId};

/// Two failures of a table: its list restarts, or its watch fails.
macro_rules! problems {
    ($($table:tt)+) => {
        [
            (|w: &mut GatewayIndex| w.$($table)+.rewind()) as fn(&mut GatewayIndex),
            |w: &mut GatewayIndex| w.$($table)+.set_failing(true),
        ]
    };
}

#[test]
fn each_list_of_the_hub_holds_up_what_needs_it() {
    let said = |index: &GatewayIndex| (index.hub_specs_synced(), index.hub_ready(), index.hub_proves());
    assert_eq!(said(&GatewayIndex::fixture()), (true, true, true));
    for (name, [rewind, fail], carries, ready) in [
        ("namespaces", problems!(hub.namespaces), false, false),
        ("city_sets", problems!(hub.city_sets), false, false),
        ("city_policies", problems!(hub.city_policies), false, false),
        (
            "config_maps",
            problems!(hub.companions[CompanionKind::CONFIG_MAP]),
            false,
            false,
        ),
        (
            "secrets",
            problems!(hub.companions[CompanionKind::SECRET]),
            false,
            false,
        ),
        ("copies", problems!(hub.copies[KindId::FIRST]), false, false),
        ("bindings", problems!(hub.bindings), true, false),
        (
            "write_backs",
            problems!(hub.write_backs[KindId::FIRST]),
            true,
            false,
        ),
        ("clusters", problems!(hub.clusters), true, true),
    ] {
        let mut index = GatewayIndex::fixture();
        fail(&mut index);
        assert_eq!(said(&index), (true, true, false), "{name} fails");
        assert_eq!(index.lacks_proof(HUB), Some(Plane::Hub), "{name}");
        let mut index = GatewayIndex::fixture();
        rewind(&mut index);
        assert_eq!(said(&index), (carries, ready, false), "{name} begins anew");
        assert_eq!(index.is_complete(&shop()), ready, "{name}");
        assert_eq!(index.specs_synced(&shop()), carries, "{name}");
        assert_eq!(index.first_phase_synced(&Plane::Hub), carries, "{name}");
    }
}

macro_rules! of_shop {
    ($($table:tt)+) => {
        [
            (|w: &mut GatewayIndex| w.projects.get_mut(&shop()).unwrap().$($table)+.rewind()) as fn(&mut GatewayIndex),
            |w: &mut GatewayIndex| w.projects.get_mut(&shop()).unwrap().$($table)+.set_failing(true),
        ]
    };
}

#[test]
fn each_list_of_a_project_holds_up_what_needs_it() {
    let said = |index: &GatewayIndex| {
        let key = &shop();
        (
            index.project_specs_synced(key),
            index.project_ready(key),
            index.project_proves(key),
        )
    };
    assert_eq!(said(&GatewayIndex::fixture()), (true, true, true));
    assert_eq!(GatewayIndex::fixture().lacks_proof(HUB), None);
    for (name, [rewind, fail], carries) in [
        ("namespaces", of_shop!(namespaces), false),
        ("sources", of_shop!(sources[KindId::FIRST]), false),
        ("workloads", of_shop!(workloads), true),
        ("projections", of_shop!(projections[KindId::FIRST]), true),
    ] {
        let plane = Plane::Project(shop());
        let mut index = GatewayIndex::fixture();
        fail(&mut index);
        assert_eq!(said(&index), (true, true, false), "{name} fails");
        assert_eq!(index.lacks_proof(HUB), Some(plane.clone()), "{name}");
        let mut index = GatewayIndex::fixture();
        rewind(&mut index);
        assert_eq!(said(&index), (carries, false, false), "{name} begins anew");
        assert!(!index.is_complete(&shop()));
        assert_eq!(index.specs_synced(&shop()), carries, "{name}");
        assert_eq!(index.first_phase_synced(&plane), carries, "{name}");
    }
    let mut nameless = GatewayIndex::fixture();
    nameless.projects.get_mut(&shop()).unwrap().uid = None;
    assert_eq!(said(&nameless), (false, false, false));
}

#[test]
fn who_waits_for_a_proof_is_woken_once_it_is_there() {
    for plane in [Plane::Hub, Plane::Project(shop())] {
        let mut index = GatewayIndex::fixture();
        let key = index.hub_key(TableId::Namespaces, "", HUB);
        index.await_proof(plane.clone(), &key);
        index.hub.namespaces.set_failing(plane == Plane::Hub);
        let project = index.projects.get_mut(&shop()).unwrap();
        project.namespaces.set_failing(plane != Plane::Hub);
        assert_eq!(index.take_unproven(&plane), [], "{plane}");
        index.hub.namespaces.set_failing(false);
        let project = index.projects.get_mut(&shop()).unwrap();
        project.namespaces.set_failing(false);
        assert_eq!(index.take_unproven(&plane), [key], "{plane}");
        assert_eq!(index.take_unproven(&plane), [], "{plane}: once");
    }
}

#[test]
fn what_is_not_carried_as_it_is_is_known() {
    let uncarried = |object: &serde_json::Value, change: fn(&mut serde_json::Value)| {
        let mut index = GatewayIndex::fixture();
        index.shop_has(TableId::DEPLOYMENTS, object);
        let mut there = copy("web", "DFW");
        change(&mut there);
        index.hub_has(TableId::DEPLOYMENTS, &there);
        let keys = index.unsynced_spec_keys(&Plane::Hub);
        assert_eq!(index.unsynced_spec_keys(&Plane::Project(shop())), keys);
        assert!(keys.iter().all(|key| index.may_sync_spec(key)));
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
