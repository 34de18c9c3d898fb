//! An object whose spec is refused keeps its member, with the spec that it has there.

use super::*;
use fedgate_engine::reconcile::throttle::RETRY_AFTER;

const MARK: &str = "example.fedgate.dev/suspended";

/// Edits that are refused, for the size of the spec or for another place, each with the condition that says it.
fn refusals() -> [(&'static str, Value); 2] {
    let large = json!({"metadata": {"generation": 2}, "spec": {"size": 5, "note": "x".repeat(200)}});
    let elsewhere =
        json!({"metadata": {"generation": 2, "labels": {keys::CITY_CODE: "LHR"}}, "spec": {"size": 5}});
    [
        ("Federated SpecTooLarge", large),
        ("Federated PlacementImmutable", elsewhere),
    ]
}

/// A delivered object in a stage.
fn pinned(stage: Stage) -> World {
    let mut world = World::new();
    world.index.largest_spec = 100;
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(stage, &applied());
    world
}

#[test]
fn it_stays_at_its_member_as_it_is() {
    for (reason, edit) in refusals() {
        let mut world = pinned(Stage::Preserve);
        world.source(&edit);
        let decided = world.decides();
        assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
        assert_eq!(world.says()[0], reason);
    }
}

#[test]
fn it_leaves_a_member_that_has_gone_before_one_joins_under_its_name() {
    for (reason, edit) in refusals() {
        let mut world = pinned(Stage::Preserve);
        world.source(&edit);
        let cluster = world.next(fixture::object("", MEMBER, "m-dfw-1"));
        world.index.hub_lost(TableId::Clusters, &cluster);
        assert_eq!(world.decides(), ["change_lane vault-none-dfw-1"], "{reason}");
    }
}

#[test]
fn it_is_held_and_resumed_without_its_spec() {
    for (reason, edit) in refusals() {
        let mut world = pinned(Stage::Preserve);
        let mut held = edit.clone();
        held["metadata"]["annotations"] = json!({MARK: "true"});
        world.source(&held);
        assert_eq!(world.decides(), ["change_lane vault-hold-dfw-1"], "{reason}");
        world.at(Stage::Suspend, &applied());
        world.source(&edit);
        assert_eq!(world.decides(), ["change_lane vault-pin-dfw-1"], "{reason}");
    }
}

#[test]
fn without_a_member_nothing_of_it_goes_to_the_hub() {
    let (_, large) = refusals()[0].clone();
    let mut world = World::new();
    world.index.largest_spec = 100;
    world.policies();
    world.source(&large);
    assert_eq!(world.says(), ["Federated SpecTooLarge"]);
    let decided = world.decides();
    assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
    world.pin(&json!({}));
    let decided = world.decides();
    assert!(
        decided.iter().all(|word| word == "return_status"),
        "nor a copy that is gone: {decided:?}"
    );
}

#[test]
fn a_first_delivery_waits_for_a_spec_that_fits() {
    let (_, large) = refusals()[0].clone();
    for (delivered, decided) in [(false, &[][..]), (true, &["change_lane vault-mend-dfw-1"][..])] {
        let mut world = pinned(Stage::Withdraw);
        world.pin(&json!({"delivered": delivered}));
        world.source(&large);
        let mut found = world.decides();
        found.retain(|word| word != "return_status");
        assert_eq!(found, decided, "delivered before: {delivered}");
    }
}

/// Records that the hub refuses the object's present spec.
fn hub_refuses(world: &mut World, is_spec: bool) {
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    let source = observe(&world.index, &key, &shop()).unwrap().source.unwrap();
    world
        .memory
        .refuse(&source, is_spec, "spec.size: Invalid value", world.now);
}

#[test]
fn a_spec_that_the_hub_refuses_holds_up_nothing_else() {
    let mut world = pinned(Stage::Preserve);
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    hub_refuses(&mut world, true);
    let decided = world.decides();
    assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
    assert_eq!(world.says()[0], "Federated HubRefused");
    let cluster = world.next(fixture::object("", MEMBER, "m-dfw-1"));
    world.index.hub_lost(TableId::Clusters, &cluster);
    hub_refuses(&mut world, false);
    let decided = world.decides();
    assert!(
        decided.iter().all(|word| word == "return_status"),
        "the write itself: {decided:?}"
    );
    hub_refuses(&mut world, true);
    assert_eq!(world.decides(), ["change_lane vault-none-dfw-1"]);
}

#[test]
fn a_deletion_that_the_hub_refuses_is_told_and_tried_again_later() {
    let mut world = pinned(Stage::Preserve);
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z", "finalizers": [keys::FEDERATOR_FINALIZER]}});
    world.source(&deleted);
    world.memory.member.deletion.is_unguarded = true;
    hub_refuses(&mut world, false);
    assert_eq!(world.decides(), ["return_status"]);
    world.now = later(world.now, RETRY_AFTER);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
}

#[test]
fn a_suspended_object_stays_in_no_lane_of_a_member_that_is_back() {
    let mut world = pinned(Stage::Release);
    world.source(&json!({"metadata": {"annotations": {MARK: "true"}}}));
    assert!(!world.decides().iter().any(|word| word.starts_with("change_lane")));
    world.source(&json!({}));
    assert_eq!(world.decides(), ["change_lane vault-mend-dfw-1"]);
}
