//! Objects that the member's own controllers end, and that Karmada makes again each time.

use super::{MEMBER, World, applied};
use crate::{federator::memory::Memory, index::single_member::Stage};
use fedgate_api::keys;
use fedgate_kinds::ByMember;
use serde_json::{Value, json};
use std::time::Duration;

/// The copy in a stage, whose member has an object with this UID.
fn reports(world: &mut World, stage: Stage, uid: &str) {
    let status = json!({"phase": "Ready", keys::UID_AT_MEMBER: uid});
    world.at(
        stage,
        &json!([{"clusterName": MEMBER, "applied": true, "status": status}]),
    );
}

fn delivered() -> World {
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world
}

/// Decisions beside conditions.
fn moves(world: &mut World) -> Vec<String> {
    let decided = world.decides().into_iter();
    decided
        .filter(|word| !word.starts_with("return_status"))
        .collect()
}

/// The next decision records this alone, and the hub stores it.
fn records(world: &mut World, uid: &str, generation: i64, again: bool) {
    let remade = json!({"uid": uid, "at": world.now.wall, "generation": generation, "again": again});
    let decided = moves(world);
    let [write] = decided.as_slice() else {
        panic!("{decided:?}")
    };
    let pin: Value = serde_json::from_str(write.strip_prefix("write_pin ").unwrap()).unwrap();
    assert_eq!(pin["remade"], remade);
    world.pin(&json!({"delivered": true, "remade": remade}));
}

fn after(world: &mut World, minutes: u64) {
    world.now = super::later(world.now, Duration::from_mins(minutes));
}

#[test]
fn an_object_that_is_made_again_twice_within_an_hour_is_withheld_until_it_is_edited() {
    let mut world = delivered();
    reports(&mut world, Stage::Preserve, "m-1");
    assert_eq!(moves(&mut world), [""; 0], "the first one is no round");
    reports(&mut world, Stage::Preserve, "m-2");
    records(&mut world, "m-2", 1, false);
    assert_eq!(moves(&mut world), [""; 0], "once: it is delivered on");
    // A record holds over a restart.
    world.memory = Memory::default();
    after(&mut world, 59);
    reports(&mut world, Stage::Preserve, "m-3");
    records(&mut world, "m-3", 1, true);
    assert_eq!(moves(&mut world), ["change_lane vault-hold-dfw-1"]);
    world.memory = Memory::default();
    after(&mut world, 90);
    reports(&mut world, Stage::Suspend, "m-4");
    assert_eq!(
        moves(&mut world),
        [""; 0],
        "no hour ends it, and no further round counts"
    );
    assert_eq!(
        world.says()[..3],
        [
            "Federated EndedByMember",
            "Scheduled Pinned",
            "Applied EndedByMember"
        ]
    );
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    records(&mut world, "m-4", 2, false);
    assert_eq!(moves(&mut world), [r#"change_lane vault-pin-dfw-1 {"size":5}"#]);
}

#[test]
fn rounds_that_are_more_than_an_hour_apart_do_not_withhold_an_object() {
    let mut world = delivered();
    reports(&mut world, Stage::Preserve, "m-1");
    assert_eq!(moves(&mut world), [""; 0]);
    for uid in ["m-2", "m-3", "m-4"] {
        reports(&mut world, Stage::Preserve, uid);
        records(&mut world, uid, 1, false);
        assert_eq!(moves(&mut world), [""; 0]);
        after(&mut world, 61);
    }
}

#[test]
fn an_edit_between_two_rounds_asks_for_the_object_anew() {
    let mut world = delivered();
    reports(&mut world, Stage::Preserve, "m-1");
    assert_eq!(moves(&mut world), [""; 0]);
    reports(&mut world, Stage::Preserve, "m-2");
    records(&mut world, "m-2", 1, false);
    let edited = json!({"metadata": {"generation": 2}});
    world.source(&edited);
    world.copy(
        "vault-pin-dfw-1",
        &json!({"metadata": {"annotations": {keys::SOURCE_GENERATION: "2"}}}),
    );
    reports(&mut world, Stage::Preserve, "m-3");
    records(&mut world, "m-3", 2, false);
}

#[test]
fn what_a_member_does_not_report_or_another_cluster_reports_is_no_round() {
    let mut world = delivered();
    for status in [
        json!(null),
        json!({}),
        json!([1]),
        json!("m-1"),
        json!({keys::UID_AT_MEMBER: {"a": 1}}),
    ] {
        let item = json!([{"clusterName": MEMBER, "applied": true, "status": status}]);
        reports(&mut world, Stage::Preserve, "m-1");
        assert_eq!(moves(&mut world), [""; 0]);
        world.at(Stage::Preserve, &item);
        assert_eq!(moves(&mut world), [""; 0], "{status}");
    }
    reports(&mut world, Stage::Preserve, &"m".repeat(65));
    assert_eq!(moves(&mut world), [""; 0], "no UID is so long");
    world.joins("m-other", None);
    reports(&mut world, Stage::Preserve, "m-2");
    let decided = moves(&mut world);
    assert_eq!(
        decided,
        ["change_lane vault-hold-dfw-1"],
        "as of every other Cluster"
    );
}

#[test]
fn an_object_of_a_new_life_is_another_one() {
    let mut world = delivered();
    reports(&mut world, Stage::Preserve, "m-1");
    assert_eq!(moves(&mut world), [""; 0]);
    world.pin(&json!({}));
    world.at(Stage::Deliver, &json!([]));
    moves(&mut world);
    world.pin(&json!({"delivered": true}));
    reports(&mut world, Stage::Preserve, "m-2");
    assert_eq!(moves(&mut world), [""; 0]);
    world.at(Stage::Preserve, &applied());
    assert_eq!(moves(&mut world), [""; 0]);
}

/// A delivered object of a kind with `byMember: ends`.
fn of_ending_kind() -> World {
    let mut world = World::with(|kind| kind.deletion.by_member = ByMember::Ends);
    world.policies();
    world.pin(&json!({"delivered": true}));
    world
}

/// The member reports that its object is being deleted since this time.
fn reports_deletion(world: &mut World, stage: Stage, since: &str) {
    let status = json!({keys::UID_AT_MEMBER: "m-1", keys::DELETED_AT_MEMBER: since});
    world.at(
        stage,
        &json!([{"clusterName": MEMBER, "applied": true, "status": status}]),
    );
}

/// Long after the copy was created.
const LATER: &str = "2030-01-01T00:00:00Z";

#[test]
fn an_object_that_its_member_ends_is_withdrawn_and_not_made_again() {
    let mut world = of_ending_kind();
    reports(&mut world, Stage::Preserve, "m-1");
    assert_eq!(moves(&mut world), [""; 0]);
    reports_deletion(&mut world, Stage::Preserve, LATER);
    let ended = json!({"at": world.now.wall, "gone": false});
    let decided = moves(&mut world);
    let [write] = decided.as_slice() else {
        panic!("{decided:?}")
    };
    let pin: Value = serde_json::from_str(write.strip_prefix("write_pin ").unwrap()).unwrap();
    assert_eq!(pin["ended"], ended);
    // The record holds over a restart.
    world.memory = Memory::default();
    world.pin(&json!({"delivered": true, "ended": ended}));
    assert_eq!(moves(&mut world), ["change_lane vault-drop-dfw-1"]);
    let told = [
        "Federated EndedByMember",
        "Scheduled Pinned",
        "Applied EndedByMember",
        "StatusCurrent EndedByMember",
    ];
    // Neither an edit nor another object at the member changes that.
    world.source(&json!({"metadata": {"generation": 2}, "spec": {"size": 5}}));
    reports(&mut world, Stage::Withdraw, "m-2");
    let decided = moves(&mut world);
    assert!(decided.iter().all(|write| !write.contains("size")), "{decided:?}");
    world.pin(&json!({"delivered": true, "ended": {"at": world.now.wall, "gone": true}}));
    world.copy_lost();
    world.binding_lost();
    assert_eq!(moves(&mut world), [""; 0], "nothing of it is left");
    assert_eq!(world.says(), told);
}

#[test]
fn neither_another_kind_nor_another_uid_nor_another_cluster_ends_an_object() {
    let mut world = delivered();
    reports_deletion(&mut world, Stage::Preserve, LATER);
    assert_eq!(moves(&mut world), [""; 0]);
    let mut world = of_ending_kind();
    reports(&mut world, Stage::Preserve, "m-1");
    assert_eq!(moves(&mut world), [""; 0]);
    reports(&mut world, Stage::Preserve, "m-2");
    records(&mut world, "m-2", 1, false);
    let mut world = of_ending_kind();
    world.joins("m-other", None);
    reports_deletion(&mut world, Stage::Preserve, LATER);
    let decided = moves(&mut world);
    assert_eq!(
        decided,
        ["change_lane vault-hold-dfw-1"],
        "another Cluster says nothing"
    );
}

#[test]
fn a_deletion_that_may_have_begun_before_the_copy_was_created_is_no_end() {
    let mut world = of_ending_kind();
    // The copy of these tests was created at the epoch.
    reports_deletion(&mut world, Stage::Preserve, "1970-01-01T00:00:10Z");
    assert_eq!(moves(&mut world), [""; 0]);
}

#[test]
fn an_ended_object_whose_copy_was_created_twice_is_not_dispatched_again() {
    for (stage, gone) in [
        (Stage::Suspend, false),
        (Stage::Preserve, false),
        (Stage::TakeOver, true),
    ] {
        let mut world = of_ending_kind();
        let ended = json!({"at": world.now.wall, "gone": gone});
        world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"], "ended": ended}));
        reports(&mut world, stage, "m-1");
        assert_eq!(moves(&mut world), ["change_lane vault-drop-dfw-1"], "{stage:?}");
    }
}
