//! Companions of an object whose member's Cluster has left the hub, or is another one.

use super::{
    adopted::{SEAL, sealed},
    lanes::{MEMBER, World, applied},
};
use crate::gateway::{
    index::{
        TableId,
        fixture::{self, HUB},
    },
    lane::{Lane, Stage},
};
use fedgate_api::keys;
use fedgate_engine::key::Key;
use serde_json::json;

/// A Cluster of the member's name joins, with the UID of the Cluster whose member it is, by an operator.
fn joins(world: &mut World, uid: &str, same_as: Option<&str>) -> Vec<Key> {
    let mut cluster = fixture::object("", MEMBER, uid);
    cluster["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
    if let Some(earlier) = same_as {
        cluster["metadata"]["annotations"] = json!({keys::SAME_AS: earlier});
    }
    cluster["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let cluster = world.next(cluster);
    world.index.hub_has(TableId::Clusters, &cluster)
}

fn leaves(world: &mut World) -> Vec<Key> {
    let cluster = world.next(fixture::object("", MEMBER, "m-dfw-1"));
    world.index.hub_lost(TableId::Clusters, &cluster)
}

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
    leaves(&mut world);
    assert_eq!(world.seal_decides(None), "nothing", "the Cluster is gone");
    joins(&mut world, "m-new", None);
    assert_eq!(world.seal_decides(None), "nothing", "it is another one");
    joins(&mut world, "m-new", Some("m-dfw-1"));
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
    assert!(leaves(&mut world).contains(&key), "it hears of the Cluster");
    assert_eq!(world.seal_decides(None), "to with-none");
    world.seal("with-none");
    assert_eq!(world.seal_decides(None), "nothing");
    assert!(joins(&mut world, "m-new", None).contains(&key));
    assert_eq!(world.seal_decides(None), "nothing", "it is another one");
    assert!(joins(&mut world, "m-new", Some("m-dfw-1")).contains(&key));
    assert_eq!(world.seal_decides(None), "to keep-dfw-1", "an operator says so");
}

/// Karmada has given it to the new Cluster before anybody could look: it stays as it is there, as its object does.
#[test]
fn one_that_another_cluster_has_applied_gets_no_new_data() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Hold, &applied());
    world.seal("keep-dfw-1");
    joins(&mut world, "m-new", None);
    assert_eq!(world.seal_decides(None), "nothing");
    world.seal_source(&json!({"motto": "y", "rings": 2}));
    assert_eq!(world.seal_decides(None), "nothing", "new data waits");
    joins(&mut world, "m-new", Some("m-dfw-1"));
    assert_eq!(world.seal_decides(None), "apply", "an operator says so");
}

#[test]
fn one_on_its_way_to_another_cluster_is_stopped_or_taken_back() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Hold, &applied());
    world.seal_told("keep-dfw-1", &json!([]));
    joins(&mut world, "m-new", None);
    assert_eq!(world.seal_decides(None), "to park-dfw-1");
    world.seal("park-dfw-1");
    assert_eq!(world.seal_decides(None), "nothing");
    world.pin(&json!({"delivered": true}));
    world.seal_told("with-dfw-1", &json!([]));
    world.seal_source(&json!({"motto": "y", "rings": 2}));
    assert_eq!(world.seal_decides(None), "to with-none", "and no new data before");
    world.seal("with-dfw-1");
    assert_eq!(
        world.seal_decides(None),
        "nothing",
        "what it has applied stays as it is"
    );
    joins(&mut world, "m-new", Some("m-dfw-1"));
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
    leaves(&mut world);
    assert_eq!(world.seal_decides(None), "to park-dfw-1", "its object is stopped");
}
