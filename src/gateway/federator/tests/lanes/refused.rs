//! An object whose spec is refused keeps its member, with the spec that it has there.

use super::*;

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
        let mut world = pinned(Stage::Pin);
        world.source(&edit);
        let decided = world.decides();
        assert!(decided.iter().all(|word| word == "return_status"), "{decided:?}");
        assert_eq!(world.says()[0], reason);
    }
}

#[test]
fn it_leaves_a_member_that_has_gone_before_one_joins_under_its_name() {
    for (reason, edit) in refusals() {
        let mut world = pinned(Stage::Pin);
        world.source(&edit);
        let cluster = world.next(fixture::object("", MEMBER, "m-dfw-1"));
        world.index.hub_lost(TableId::Clusters, &cluster);
        assert_eq!(world.decides(), ["change_lane vault-none-dfw-1"], "{reason}");
    }
}

#[test]
fn it_is_held_and_resumed_without_its_spec() {
    for (reason, edit) in refusals() {
        let mut world = pinned(Stage::Pin);
        let mut held = edit.clone();
        held["metadata"]["annotations"] = json!({MARK: "true"});
        world.source(&held);
        assert_eq!(world.decides(), ["change_lane vault-hold-dfw-1"], "{reason}");
        world.at(Stage::Hold, &applied());
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
