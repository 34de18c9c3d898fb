//! Objects that go on after a suspension, and the specs that were written meanwhile.

use super::{MEMBER, NAME, World, applied, merge, scheduled};
use crate::{
    federator::{
        observe::observe,
        tests::{Action, SETTINGS, decision},
    },
    index::{
        TableId,
        fixture::{self, HUB, shop},
        single_member::Stage,
    },
    rate_limit::Permit,
};
use fedgate_api::keys;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_spec_that_was_edited_before_the_first_delivery_goes_with_its_lane() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({}));
    world.at(Stage::Withdraw, &json!([]));
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    assert_eq!(
        world.decides(),
        [r#"change_lane vault-send-dfw-1 {"size":5}"#],
        "the member never gets the spec before"
    );
}

#[test]
fn a_spec_that_names_another_companion_waits_in_hold_until_that_is_applied() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Suspend, &applied());
    world
        .index
        .list_shop(TableId::SECRETS, &[fixture::object("default", "token", "s-1")]);
    let finalizers = [keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER];
    world.source(&json!({
        "metadata": {"generation": 2, "finalizers": finalizers},
        "spec": {"credentials": {"secretName": "token"}},
    }));
    let moves = |world: &mut World| -> Vec<String> {
        let decided = world.decides();
        decided
            .into_iter()
            .filter(|word| word.starts_with("change_lane"))
            .collect()
    };
    assert_eq!(moves(&mut world), [""; 0], "the hub has no such companion");
    let mut companion = fixture::companion("token", &json!(["default/gold"]));
    companion["metadata"]["labels"] = json!({keys::LANE: "with-dfw-1"});
    world.index.hub_has(TableId::SECRETS, &companion);
    assert_eq!(moves(&mut world), [""; 0], "its member has not applied it");
    let mut binding = fixture::object(HUB, "token-secret", "b-token");
    merge(
        &mut binding,
        &json!({
            "metadata": {"generation": 1, "annotations": {keys::CLAIM_NAME: "with-dfw-1"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "token", "uid": "k-token"}]},
            "spec": {"resource": {"apiVersion": "v1", "kind": "Secret", "name": "token"}, "clusters": [{"name": MEMBER}]},
            "status": scheduled(&json!([{"clusterName": MEMBER, "applied": true}])),
        }),
    );
    world.index.hub_has(TableId::Bindings, &binding);
    assert_eq!(
        moves(&mut world),
        [r#"change_lane vault-pin-dfw-1 {"credentials":{"secretName":"token"}}"#]
    );
}

/// Bindings may be read later than objects.
#[test]
fn an_object_is_not_strayed_before_bindings_are_read() {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    world.binding_lost();
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    for is_complete in [false, true] {
        let mut moved = false;
        for _ in 0..3 {
            let mut snapshot = observe(&world.index, &key, &shop()).unwrap();
            snapshot.complete = is_complete;
            let decision = decision(&snapshot, &world.memory, &SETTINGS, Permit::Granted, world.now);
            world.memory = decision.memory.applied;
            world.now = super::later(world.now, Duration::from_secs(6));
            if let Action::Apply(plan) | Action::Confirm(plan) = decision.action {
                moved |= plan
                    .effects
                    .iter()
                    .any(|effect| super::words(effect).starts_with("change_lane"));
            }
        }
        assert_eq!(moved, is_complete);
    }
}
