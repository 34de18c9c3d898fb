//! Guards, and what the member has before its object is deleted: its operator cleans up nothing while it reads a guard.

use super::{MEMBER, World, applied, deleted};
use crate::{index::single_member::Stage, single_member::Observation};
use serde_json::{Value, json};

const ENDS: &str = "2026-05-04T09:00:00Z";

/// An object that was guarded when it was deleted, and no longer is; the copy in a stage has the guard.
fn unguarded(stage: Stage) -> World {
    let mut world = deleted(&json!({"spec": {"locked": true}}));
    world.memory.member.deletion.is_unguarded = false;
    copy(&mut world, stage, &json!({"locked": true}), 1);
    assert_eq!(world.says(), ["Federated DeletionHeld"]);
    world.source(
        &json!({"metadata": {"deletionTimestamp": ENDS, "generation": 3}, "spec": {"locked": false}}),
    );
    world
}

/// The copy in a stage, with this spec of a generation of the project's object.
fn copy(world: &mut World, stage: Stage, spec: &Value, generation: u64) {
    let lane = world.name(&world.lane(stage));
    let annotations = json!({"fedgate.dev/source-generation": generation.to_string()});
    world.copy(
        &lane,
        &json!({"metadata": {"annotations": annotations}, "spec": spec}),
    );
    world.binding(&lane, &[MEMBER], &applied());
}

fn absent(world: &mut World) {
    world.memory.member.probing.observation = Some(Observation::Absent);
}

fn is_withdrawn(decided: &[String]) -> bool {
    let withdraws = |word: &String| word.contains("drop") || word.contains("delete");
    decided.iter().any(withdraws)
}

#[test]
fn the_end_of_a_guard_reaches_the_member_before_the_copy_is_withdrawn() {
    let mut world = unguarded(Stage::Preserve);
    assert_eq!(
        world.decides(),
        [r#"update_copy vault-pin-dfw-1 {"locked":false,"size":1}"#]
    );
    copy(
        &mut world,
        Stage::Preserve,
        &json!({"locked": false, "size": 1}),
        3,
    );
    assert_eq!(
        world.decides(),
        ["ask dfw-1 for it"],
        "what Karmada says of an earlier spec proves nothing"
    );
    world.has(1, true);
    assert!(!is_withdrawn(&world.decides()), "the member has the guard");
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.has(1, false);
    assert!(
        !is_withdrawn(&world.decides()),
        "a spec with the guard may be on its way"
    );
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.has(3, true);
    assert!(!is_withdrawn(&world.decides()), "somebody there has set it");
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.has_spec(3);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    copy(
        &mut world,
        Stage::Withdraw,
        &json!({"locked": false, "size": 1}),
        3,
    );
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(world.decides(), ["delete_copy"], "it is asked once");
}

#[test]
fn a_suspended_object_gets_the_end_of_its_guard_too() {
    let mut world = unguarded(Stage::Suspend);
    let suspended = json!({"metadata": {"deletionTimestamp": ENDS, "generation": 3,
        "annotations": {"example.fedgate.dev/suspended": "true"}}, "spec": {"locked": false}});
    world.source(&suspended);
    assert_eq!(
        world.decides(),
        [r#"change_lane vault-pin-dfw-1 {"locked":false}"#]
    );
}

#[test]
fn an_edit_that_karmada_has_not_delivered_yet_holds_the_withdrawal_also_after_a_restart() {
    let mut world = unguarded(Stage::Preserve);
    for stage in [Stage::Deliver, Stage::Preserve, Stage::TakeOver] {
        world.memory = super::Memory::default();
        copy(&mut world, stage, &json!({"locked": false, "size": 1}), 3);
        assert_eq!(world.decides(), ["ask dfw-1 for it"], "{stage:?}");
        for seen in [
            Observation::Unknown("dial tcp: connect: connection refused".to_owned()),
            Observation::There {
                deleting: false,
                finalizers: Vec::new(),
                generation: None,
                guarded: true,
            },
        ] {
            world.memory.member.probing.observation = Some(seen);
            assert!(!is_withdrawn(&world.decides()), "{stage:?}");
            world.passes(60);
            assert_eq!(world.decides(), ["ask dfw-1 for it"], "{stage:?}");
        }
        world.has_spec(3);
        assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"], "{stage:?}");
    }
}

/// An edit may be held back where the copy has it already, and a copy may be stopped by a Cluster that was another one.
#[test]
fn a_copy_that_delivers_nothing_delivers_again_until_the_member_has_the_spec() {
    for (stage, lane) in [
        (Stage::Suspend, "vault-pin-dfw-1"),
        (Stage::Release, "vault-mend-dfw-1"),
    ] {
        let mut world = unguarded(Stage::Preserve);
        copy(&mut world, stage, &json!({"locked": false, "size": 1}), 3);
        assert_eq!(world.decides(), ["ask dfw-1 for it"], "{stage:?}");
        world.has_spec(1);
        let decided = world.decides();
        assert_eq!(decided.len(), 1, "{decided:?}");
        assert!(
            decided[0].starts_with(&format!("change_lane {lane}")),
            "{decided:?}"
        );
    }
    let mut world = unguarded(Stage::Withdraw);
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.has(1, true);
    assert_eq!(
        world.decides(),
        [r#"change_lane vault-mend-dfw-1 {"locked":false}"#]
    );
}

#[test]
fn an_object_that_is_not_there_needs_no_spec() {
    let mut world = unguarded(Stage::Preserve);
    copy(
        &mut world,
        Stage::Preserve,
        &json!({"locked": false, "size": 1}),
        3,
    );
    absent(&mut world);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    copy(
        &mut world,
        Stage::Withdraw,
        &json!({"locked": false, "size": 1}),
        3,
    );
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(
        world.decides(),
        ["ask dfw-1 for it"],
        "Karmada may have made it before it was stopped"
    );
    absent(&mut world);
    assert_eq!(world.decides(), ["delete_copy"]);
}

#[test]
fn a_spec_that_cannot_reach_the_member_holds_the_deletion_with_its_reason() {
    let mut world = unguarded(Stage::Preserve);
    let large = "x".repeat(2_000_000);
    world.source(&json!({"metadata": {"deletionTimestamp": ENDS, "generation": 3}, "spec": {"locked": false, "note": large}}));
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.has(1, true);
    assert_eq!(world.says(), ["Federated SpecTooLarge"]);
    assert!(!is_withdrawn(&world.decides()));
}

/// An object that was guarded, and whose last spec its member refuses.
fn refused() -> World {
    let mut world = unguarded(Stage::Preserve);
    copy(
        &mut world,
        Stage::Preserve,
        &json!({"locked": false, "size": 1}),
        3,
    );
    refuses(&mut world, Stage::Preserve);
    world
}

fn refuses(world: &mut World, stage: Stage) {
    let lane = world.name(&world.lane(stage));
    let refused = json!([{"clusterName": MEMBER, "appliedMessage": "spec.size: Forbidden"}]);
    world.binding(&lane, &[MEMBER], &refused);
}

#[test]
fn a_member_that_refuses_the_end_of_a_guard_holds_the_deletion_with_its_words() {
    let mut world = refused();
    world.has(1, true);
    let federated = world.tells("Federated");
    assert!(
        federated.starts_with("ApplyFailed being deleted at dfw-1"),
        "{federated}"
    );
    for part in [
        "a guard holds in it there",
        "edit the object until dfw-1 takes it",
        "fedgate.dev/abandon: dfw-1",
        ": spec.size: Forbidden",
    ] {
        assert!(federated.contains(part), "{part}: {federated}");
    }
    world.passes(10);
    world.has(1, true);
    assert_eq!(
        world.decides(),
        ["change_lane vault-mend-dfw-1"],
        "Karmada may have let go of it"
    );
    copy(
        &mut world,
        Stage::TakeOver,
        &json!({"locked": false, "size": 1}),
        3,
    );
    refuses(&mut world, Stage::TakeOver);
    let edited = |size: i64, note: &str| {
        json!({"metadata": {"deletionTimestamp": ENDS, "generation": 4},
            "spec": {"locked": false, "size": size, "note": note}})
    };
    world.source(&edited(2, &"x".repeat(2_000_000)));
    world.has(1, true);
    assert_eq!(world.says(), ["Federated SpecTooLarge"]);
    world.source(&edited(2, ""));
    world.has(1, true);
    assert_eq!(
        world.decides(),
        [r#"update_copy vault-mend-dfw-1 {"locked":false,"note":"","size":2}"#]
    );
    copy(
        &mut world,
        Stage::TakeOver,
        &json!({"locked": false, "note": "", "size": 2}),
        4,
    );
    world.has_spec(4);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"], "it takes it");
}

#[test]
fn an_edit_that_its_member_refuses_does_not_hold_the_deletion_of_an_object_without_a_guard_there() {
    let mut world = refused();
    assert_eq!(world.decides(), ["ask dfw-1 for it"]);
    world.has(1, false);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    copy(
        &mut world,
        Stage::Withdraw,
        &json!({"locked": false, "size": 1}),
        3,
    );
    refuses(&mut world, Stage::Withdraw);
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(
        world.decides(),
        ["ask dfw-1 for it"],
        "a spec with the guard may have been on its way"
    );
    world.has(1, false);
    assert_eq!(world.decides(), ["delete_copy"]);
}

/// A controller of the member may remove annotations that it does not know.
#[test]
fn an_object_that_names_no_generation_is_withdrawn_if_no_guard_holds_in_it() {
    let mut world = unguarded(Stage::Preserve);
    copy(
        &mut world,
        Stage::Preserve,
        &json!({"locked": false, "size": 1}),
        3,
    );
    for (guarded, withdrawn) in [(true, false), (false, true)] {
        world.memory.member.probing.observation = Some(Observation::There {
            deleting: false,
            finalizers: Vec::new(),
            generation: None,
            guarded,
        });
        assert_eq!(is_withdrawn(&world.decides()), withdrawn, "guarded: {guarded}");
    }
}

#[test]
fn a_member_that_is_another_one_or_abandoned_is_not_asked() {
    let mut world = unguarded(Stage::Preserve);
    world.joins("m-new", None);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    let mut world = unguarded(Stage::Preserve);
    let abandoned = json!({"metadata": {"deletionTimestamp": ENDS, "generation": 3,
        "annotations": {"fedgate.dev/abandon": MEMBER}}, "spec": {"locked": false}});
    world.source(&abandoned);
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
}
