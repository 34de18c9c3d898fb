//! Objects that the member's own controllers end, and that Karmada makes again each time.

use super::{MEMBER, World, applied};
use crate::{federator::memory::Memory, index::single_member::Stage};
use fedgate_api::keys;
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
