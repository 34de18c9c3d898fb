//! Companions of an object whose member's Cluster has left the hub, or is another one.

use super::{
    adopted::{SEAL, sealed},
    lanes::{World, applied},
};
use crate::gateway::{
    companions,
    index::{TableId, change::Change, fixture::HUB},
    lane::{Lane, Stage},
};
use serde_json::json;

fn with_none() -> World {
    let mut world = sealed();
    world.policy(&Lane::WithNone);
    world
}

#[test]
fn one_that_is_not_on_the_hub_yet_waits_for_the_pinned_cluster() {
    let mut world = with_none();
    world.pin(&json!({}));
    world.copy("vault-drop-dfw-1", &json!({}));
    assert!(world.seal_decides(None).starts_with("create"));
    world.leaves();
    assert_eq!(world.seal_decides(None), "nothing", "the Cluster is gone");
    world.joins("m-new", None);
    assert_eq!(world.seal_decides(None), "nothing", "it is another one");
    world.joins("m-new", Some("m-dfw-1"));
    assert!(
        world.seal_decides(None).starts_with("create"),
        "an operator says so"
    );
}

#[test]
fn a_cluster_that_leaves_takes_its_companions_out_of_their_lane_before_another_one_joins() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Pin, &applied());
    world.seal("keep-dfw-1");
    let key = world
        .index
        .hub_key(TableId::Companions(super::adopted::seals(&world)), HUB, "wax");
    assert!(world.leaves().contains(&key), "it hears of the Cluster");
    assert_eq!(world.seal_decides(None), "to with-none");
    world.seal("with-none");
    assert_eq!(world.seal_decides(None), "nothing");
    assert!(world.joins("m-new", None).contains(&key));
    assert_eq!(world.seal_decides(None), "nothing", "it is another one");
    assert!(world.joins("m-new", Some("m-dfw-1")).contains(&key));
    assert_eq!(world.seal_decides(None), "to keep-dfw-1", "an operator says so");
}

/// Karmada has given it to the new Cluster before anybody could look: it stays as it is there, as its object does.
#[test]
fn one_that_another_cluster_has_applied_gets_no_new_data() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Hold, &applied());
    world.seal("keep-dfw-1");
    world.joins("m-new", None);
    assert_eq!(world.seal_decides(None), "nothing");
    world.seal_source(&json!({"motto": "y", "rings": 2}));
    assert_eq!(world.seal_decides(None), "nothing", "new data waits");
    world.joins("m-new", Some("m-dfw-1"));
    assert_eq!(world.seal_decides(None), "apply", "an operator says so");
}

#[test]
fn one_on_its_way_to_another_cluster_is_stopped_or_taken_back() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Hold, &applied());
    world.seal_reported("keep-dfw-1", &json!([]));
    world.joins("m-new", None);
    assert_eq!(world.seal_decides(None), "to park-dfw-1");
    world.seal("park-dfw-1");
    assert_eq!(world.seal_decides(None), "nothing");
    world.pin(&json!({"delivered": true}));
    world.seal_reported("with-dfw-1", &json!([]));
    world.seal_source(&json!({"motto": "y", "rings": 2}));
    assert_eq!(world.seal_decides(None), "to with-none", "and no new data before");
    world.seal("with-dfw-1");
    assert_eq!(
        world.seal_decides(None),
        "nothing",
        "what it has applied stays as it is"
    );
    world.joins("m-new", Some("m-dfw-1"));
    assert_eq!(world.seal_decides(None), "apply", "an operator says so");
}

#[test]
fn a_deletion_does_not_wait_for_the_cluster() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.source(&super::adopted::names(
        &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ));
    world.at(Stage::Drop, &applied());
    world.seal("with-none");
    world.leaves();
    assert_eq!(world.seal_decides(None), "to park-dfw-1", "its object is stopped");
}

/// Its companions say there what they are for, and nobody else does: all are looked at, each once.
#[test]
fn a_namespace_without_an_owner_is_looked_at_once_however_many_objects_it_has() {
    let mut world = with_none();
    world.seal("keep-dfw-1");
    world.index.owners.remove(HUB);
    let object = |name: &str| (world.kind, HUB.into(), name.into());
    let change = Change::Member {
        sources: Vec::new(),
        pinned: vec![object("gold"), object("iron")],
    };
    let mut keys = Vec::new();
    companions::triggers::triggers(&world.index, &change, &mut keys);
    let kind = TableId::Companions(super::adopted::seals(&world));
    assert_eq!(keys, [world.index.hub_key(kind, HUB, "wax")]);
}
