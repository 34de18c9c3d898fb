//! A deletion while the member's Cluster is another one, or gone.

use super::*;
use crate::garbage::{Copies, Garbage};

#[test]
fn another_cluster_of_the_members_name_proves_nothing() {
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.is_binding_settled = true;
    world.joins("m-new", None);
    assert_eq!(world.decides(), ["return_status"]);
    world.memory.member.probing.observation = Some(Observation::Absent);
    assert!(
        !world.decides().iter().any(|word| word.starts_with("remove_pin")),
        "seen before it joined"
    );
    assert_eq!(world.says(), ["Federated MemberReplaced"]);
    world.joins("m-new", Some("m-dfw-1"));
    assert_eq!(world.decides(), ["look at dfw-1"]);
}

#[test]
fn nothing_is_taken_over_at_a_cluster_that_is_another_one_or_gone() {
    for change in [
        |world: &mut World| drop(world.joins("m-new", None)),
        |world: &mut World| drop(world.leaves()),
    ] {
        let mut world = deleted(&json!({}));
        world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
        world.at(Stage::Release, &json!([]));
        change(&mut world);
        assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    }
    let mut world = deleted(&json!({}));
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    world.at(Stage::Release, &json!([]));
    assert_eq!(
        world.decides(),
        ["change_lane vault-mend-dfw-1"],
        "its own member"
    );
}

#[test]
fn what_is_taken_over_for_its_deletion_needs_no_sources() {
    let mut world = deleted(&json!({"spec": {"credentials": {"secretName": "gone"}}}));
    world.copy_lost();
    world.binding_lost();
    world.memory.member.probing.observation = Some(Observation::There {
        deleting: false,
        finalizers: Vec::new(),
        generation: None,
        guarded: false,
    });
    let decided = world.decides();
    assert!(
        decided[0].starts_with("create_copy vault-drop-dfw-1"),
        "{decided:?}"
    );
}

/// The answer to a look may be that of a Cluster that has joined under the name of the one that left.
#[test]
fn a_member_that_has_left_proves_nothing() {
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.is_binding_settled = true;
    world.leaves();
    world.memory.member.probing.observation = Some(Observation::Absent);
    assert_eq!(world.decides(), ["return_status"]);
}

#[test]
fn a_cluster_that_is_not_known_is_not_asked_and_its_object_waits_for_the_list() {
    for (stage, is_there) in [
        (Stage::Preserve, true),
        (Stage::Release, true),
        (Stage::Withdraw, false),
    ] {
        let mut world = deleted(&json!({}));
        world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
        if is_there {
            world.at(stage, &applied());
        } else {
            world.copy_lost();
            world.binding_lost();
            world.memory.is_binding_settled = true;
        }
        world.leaves();
        world.index.hub.clusters.set_failing(true);
        assert_eq!(world.decides(), ["return_status"], "{stage:?}");
        let key = world.index.source_key(world.kind, &shop(), "default", NAME);
        let snapshot = observe(&world.index, &key, &shop()).unwrap();
        assert!(snapshot.lacks_clusters(), "{stage:?}");
        assert_eq!(world.index.take_waiting_for_clusters(), [], "{stage:?}");
        world.index.hub.clusters.set_failing(false);
        world.index.await_proof(Plane::Hub, &key);
        assert_eq!(
            world.index.take_waiting_for_clusters(),
            std::slice::from_ref(&key),
            "{stage:?}"
        );
        let snapshot = observe(&world.index, &key, &shop()).unwrap();
        assert!(!snapshot.lacks_clusters(), "{stage:?}");
        assert_ne!(world.decides(), [""; 0], "{stage:?}");
    }
}

/// Thousands of objects may live at a Cluster that leaves, and every moment counts.
#[test]
fn it_is_taken_off_another_cluster_without_a_permit() {
    let wait = Permit::Wait(Duration::from_secs(60));
    for (change, stage, lane) in [
        ("leaves", Stage::Preserve, "vault-none-dfw-1"),
        ("another", Stage::Preserve, "vault-hold-dfw-1"),
        ("another", Stage::Deliver, "vault-drop-dfw-1"),
    ] {
        let mut world = World::new();
        world.policies();
        world.pin(&json!({"delivered": true}));
        world.at(stage, &applied());
        match change {
            "leaves" => drop(world.leaves()),
            _ => drop(world.joins("m-new", None)),
        }
        assert_eq!(world.decides_with(wait), [format!("change_lane {lane}")]);
    }
    let mut world = World::new();
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Release, &json!([]));
    assert!(
        !world.decides_with(wait).iter().any(|word| word.contains("lane")),
        "to its own member with one"
    );
}

/// The row of a Cluster that left while its watch fails is still there, and its name may have another one by now.
#[test]
fn a_deletion_ends_only_while_the_clusters_are_seen() {
    let mut world = deleted(&json!({}));
    world.copy_lost();
    world.binding_lost();
    world.memory.is_binding_settled = true;
    world.index.hub.clusters.set_failing(true);
    assert_eq!(world.decides(), ["return_status"], "nobody is asked");
    world.memory.member.probing.observation = Some(Observation::Absent);
    assert_eq!(world.decides(), ["return_status"], "seen before");
    world.index.hub.clusters.set_failing(false);
    assert_eq!(world.decides(), ["look at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::Absent);
    assert_eq!(world.decides(), ["remove_pin null"]);
}

#[test]
fn a_deletion_that_asks_no_member_does_not_wait_for_its_cluster() {
    let mut world = World::with(|kind| kind.deletion.finished_when = FinishedWhen::Released);
    world.policies();
    world.pin(&json!({"delivered": true}));
    world.source(&json!({"metadata": {"deletionTimestamp": "2026-05-04T09:00:00Z"}}));
    world.leaves();
    world.index.hub.clusters.set_failing(true);
    assert_eq!(world.decides(), ["remove_pin null"]);
    // Karmada deletes what it manages only: a copy that was made again has to take its object over before it goes.
    world.pin(&json!({"delivered": true, "copyUids": ["c-old", "c-gold"]}));
    world.at(Stage::Withdraw, &json!([]));
    assert_eq!(world.decides(), ["return_status"], "it waits with its copy");
    world.index.hub.clusters.set_failing(false);
    world.joins("m-dfw-1", None);
    assert_eq!(world.decides(), ["change_lane vault-mend-dfw-1"]);
}

#[test]
fn a_deletion_at_another_cluster_waits_for_no_permit() {
    for change in [
        |world: &mut World| drop(world.joins("m-new", None)),
        |world: &mut World| drop(world.leaves()),
    ] {
        let mut world = deleted(&json!({}));
        change(&mut world);
        let wait = Permit::Wait(Duration::from_secs(60));
        assert_eq!(world.decides_with(wait), ["change_lane vault-drop-dfw-1"]);
    }
}

/// An orphan that waits for the word of an operator, which may come after its hub was out of reach.
#[test]
fn an_orphan_hears_of_its_cluster() {
    let mut world = World::new();
    world.pin(&json!({"delivered": true}));
    let orphan = world.index.hub_key(TableId::Federated(world.kind), HUB, NAME);
    for enqueued in [
        world.leaves(),
        world.joins("m-new", None),
        world.joins("m-new", Some("m-dfw-1")),
    ] {
        assert!(enqueued.contains(&orphan), "{enqueued:?}");
    }
}

#[tokio::test]
async fn an_orphan_without_a_copy_waits_for_what_its_hub_can_prove() {
    let mut world = World::new();
    world.pin(&json!({"delivered": true}));
    let source = world.next(fixture::source(NAME, "DFW"));
    world.index.shop_lost(TableId::Federated(world.kind), &source);
    world.index.hub.bindings.set_failing(true);
    let orphan = world.index.hub_key(TableId::Federated(world.kind), HUB, NAME);
    let rig = Rig::new(world.index, |_, _| refusal(404, "NotFound", &json!({})));
    let ctx = rig.reconcile_once();
    reconcile(&Copies(&Garbage::default()), &ctx, &orphan)
        .await
        .unwrap();
    let mut index = rig.context.index.lock();
    index.hub.bindings.set_failing(false);
    assert!(index.take_unproven(&Plane::Hub).contains(&orphan));
}
