//! Companions of an object whose member's Cluster has left the hub, or is another one.

use super::{
    adopted::{SEAL, sealed},
    lanes::{MEMBER, World, applied},
};
use crate::{
    companions::{self, decide::Snapshot},
    index::{
        ObjectRef, TableId,
        change::Change,
        fixture::{self, HUB},
        single_member::{DeliveryPolicy, Stage},
    },
    rate_limit::Class,
    single_member::referrers::CompanionRef,
};
use serde_json::json;
use std::collections::BTreeSet;

fn with_none() -> World {
    let mut world = sealed();
    world.policy(&DeliveryPolicy::WithNone);
    world
}

fn observed(world: &World) -> Snapshot {
    let kind = super::adopted::seals(world);
    let observed = companions::observe::observe(
        &world.index,
        CompanionRef {
            kind,
            hub: HUB,
            name: "wax",
        },
        &BTreeSet::new(),
    );
    observed.expect("its lists are complete")
}

/// The permit that the next write takes.
fn class(world: &World) -> Option<Class> {
    let snapshot = observed(world);
    companions::decide::class(&snapshot, &companions::decide::decide(&snapshot, None))
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
    world.at(Stage::Preserve, &applied());
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
fn one_that_another_cluster_was_given_stays_without_new_data_whatever_it_has_reported() {
    for (lane, kept) in [("keep-dfw-1", json!([SEAL])), ("with-dfw-1", json!([]))] {
        for items in [applied(), json!([{"clusterName": MEMBER}]), json!([])] {
            let mut world = with_none();
            world.pin(&json!({"delivered": true, "kept": kept}));
            world.at(Stage::Suspend, &applied());
            world.seal_reported(lane, &items);
            world.joins("m-new", None);
            assert_eq!(world.seal_decides(None), "nothing", "{lane} {items}");
            world.seal_source(&json!({"motto": "y", "rings": 2}));
            assert_eq!(
                world.seal_decides(None),
                "nothing",
                "new data waits: {lane} {items}"
            );
            world.joins("m-new", Some("m-dfw-1"));
            assert_eq!(
                world.seal_decides(None),
                "update",
                "an operator says so: {lane} {items}"
            );
        }
    }
}

/// The reports of members may be of the Cluster before.
#[test]
fn one_that_karmada_gives_to_the_member_no_more_is_taken_back_and_new_data_waits() {
    for (lane, kept) in [("keep-dfw-1", json!([SEAL])), ("with-dfw-1", json!([]))] {
        let mut world = with_none();
        world.pin(&json!({"delivered": true, "kept": kept}));
        world.at(Stage::Suspend, &applied());
        let key = world
            .index
            .hub_key(TableId::Companions(super::adopted::seals(&world)), HUB, "wax");
        world.seal_reported(lane, &applied());
        world.joins("m-new", None);
        world.seal_source(&json!({"motto": "y", "rings": 2}));
        let enqueued = world.seal_given(&["default/gold"], lane, (lane, &[]), &applied());
        assert!(enqueued.contains(&key), "{enqueued:?}");
        assert_eq!(world.seal_decides(None), "to with-none", "{lane}");
        // Its binding is still that of the lane before.
        world.seal_given(&["default/gold"], "with-none", (lane, &[MEMBER]), &applied());
        assert_eq!(
            world.seal_decides(None),
            "nothing",
            "it is not given back: {lane}"
        );
        world.seal_given(&["default/gold"], "with-none", ("with-none", &[]), &json!([]));
        assert_eq!(world.seal_decides(None), "update", "no member has it: {lane}");
    }
}

/// The list of Clusters is late, or its watch fails: whatever has the member's name may be another Cluster.
#[test]
fn a_cluster_that_is_not_known_gets_nothing_and_takes_nothing_back() {
    for lane in ["with-none", "with-dfw-1", "keep-dfw-1", "park-dfw-1"] {
        let mut world = with_none();
        world.pin(&json!({"delivered": true, "kept": [SEAL]}));
        world.at(Stage::Release, &json!([]));
        world.seal(lane);
        world.leaves();
        world.seal_source(&json!({"motto": "y", "rings": 2}));
        world.index.hub.clusters.set_failing(true);
        assert_eq!(world.seal_decides(None), "nothing", "{lane}");
        let decided = world.decides();
        let is_status = |word: &String| word == "return_status";
        assert!(
            decided.iter().all(is_status),
            "neither does its object: {lane} {decided:?}"
        );
    }
    let mut world = with_none();
    world.pin(&json!({}));
    world.copy("vault-drop-dfw-1", &json!({}));
    world.leaves();
    world.index.hub.clusters.set_failing(true);
    assert_eq!(world.seal_decides(None), "nothing", "nor is it made");
}

/// A kind whose companions do not go with their objects, and two objects that name one.
fn shared() -> World {
    let mut world = World::with(|kind| {
        let rules = &mut kind.companions.as_mut().unwrap().references;
        for rule in rules.iter_mut() {
            rule.adopted = false;
        }
    });
    for lane in [&["dfw-1"][..], &["dfw-2"], &["dfw-1", "dfw-2"]] {
        world.policy(&DeliveryPolicy::With(
            lane.iter().map(|name| (*name).into()).collect(),
        ));
    }
    world.policy(&DeliveryPolicy::WithNone);
    world.source(&super::adopted::names(&json!({})));
    world.source(&super::adopted::names(
        &json!({"metadata": {"name": "aurum", "uid": "u-aurum"}}),
    ));
    world.seal_source(&json!({"motto": "x", "rings": 1}));
    world
}

const BOTH: [&str; 2] = ["default/aurum", "default/gold"];

/// The pins of both objects: the member of the second, and its Cluster.
fn pins(world: &mut World, member: &str, uid: &str) {
    let pin = |name: &str, member: &str, uid: &str| {
        json!({"member": member, "memberUid": uid, "copyUids": [format!("c-{name}")],
            "sourceUid": format!("u-{name}"), "delivered": true})
        .to_string()
    };
    let key = |name: &str| crate::index::single_member::pin::key(&world.index.kinds[world.kind], name);
    let both = json!({key("gold"): pin("gold", MEMBER, "m-dfw-1"), key("aurum"): pin("aurum", member, uid)});
    world.record(&both);
}

#[test]
fn one_of_two_members_goes_on_where_its_cluster_is_the_pinned_one() {
    let mut world = shared();
    pins(&mut world, "dfw-2", "m-dfw-2");
    let both = ("with-dfw-1.dfw-2", &["dfw-1", "dfw-2"][..]);
    world.seal_given(&BOTH, both.0, both, &applied());
    assert_eq!(world.seal_decides(None), "nothing");
    world.joins("m-new", None);
    assert_eq!(world.seal_decides(None), "nothing", "the new Cluster has it");
    world.seal_source(&json!({"motto": "y", "rings": 2}));
    assert_eq!(world.seal_decides(None), "nothing", "no data for the new Cluster");
    world.seal_given(&BOTH, both.0, (both.0, &["dfw-2"]), &applied());
    assert_eq!(
        world.seal_decides(None),
        "to with-dfw-2",
        "the new Cluster has none"
    );
    world.seal_given(&BOTH, "with-dfw-2", ("with-dfw-2", &["dfw-2"]), &applied());
    assert_eq!(world.seal_decides(None), "update", "the other member goes on");
    world.seal_given(&BOTH, "with-dfw-2", both, &applied());
    assert_eq!(
        world.seal_decides(None),
        "nothing",
        "its binding still gives it to the new Cluster"
    );
    // Karmada writes the policy first, and the clusters after it.
    world.seal_given(&BOTH, "with-dfw-2", ("with-dfw-2", both.1), &applied());
    assert_eq!(world.seal_decides(None), "nothing", "nor does the next one");
}

/// The label of many members has a hash for some of them.
#[test]
fn a_set_whose_name_is_cut_is_read_from_the_objects_that_name_it() {
    let mut world = shared();
    let far = format!("far-{}", "0".repeat(40));
    let farther = format!("farther-{}", "0".repeat(40));
    let set = |names: &[&str]| DeliveryPolicy::With(names.iter().map(|name| (*name).into()).collect());
    let (both, all) = (set(&[MEMBER, &far]), set(&[MEMBER, &far, &farther]));
    for lane in [&both, &all, &set(&[&far])] {
        world.policy(lane);
    }
    pins(&mut world, &far, "m-far");
    let mut cluster = fixture::object("", &far, "m-new");
    cluster["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let cluster = world.next(cluster);
    world.index.hub_has(TableId::Clusters, &cluster);
    let [both, all] = [&both, &all].map(|lane| lane.name(&world.index.kinds));
    let members = [MEMBER, far.as_str()];
    world.seal_given(&BOTH, &both, (&all, &members), &applied());
    assert_eq!(world.seal_decides(None), "nothing", "the label has it");
    world.seal_given(&BOTH, "with-dfw-1", (&both, &members), &applied());
    assert_eq!(world.seal_decides(None), "nothing", "the label leaves it out");
    world.seal_given(&BOTH, &all, (&all, &members), &applied());
    assert_eq!(world.seal_decides(None), "to with-dfw-1", "it cannot be read");
    world.seal_given(&BOTH, &both, (&both, &[MEMBER]), &applied());
    assert_eq!(
        world.seal_decides(None),
        "to with-dfw-1",
        "it was not given there"
    );
    assert_eq!(class(&world), None, "off one of two");
}

/// The second object has found its member after the Cluster joined anew.
#[test]
fn one_that_an_object_of_the_new_cluster_names_goes_on_there() {
    let mut world = shared();
    pins(&mut world, MEMBER, "m-new");
    world.seal_given(&BOTH, "with-dfw-1", ("with-dfw-1", &[MEMBER]), &applied());
    world.joins("m-new", None);
    assert_eq!(world.seal_decides(None), "nothing");
    world.seal_source(&json!({"motto": "y", "rings": 2}));
    assert_eq!(world.seal_decides(None), "update");
}

#[test]
fn a_deletion_does_not_wait_for_the_cluster() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.source(&super::adopted::names(
        &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ));
    world.at(Stage::Withdraw, &applied());
    world.seal("with-none");
    world.leaves();
    assert_eq!(world.seal_decides(None), "to park-dfw-1", "its object is stopped");
}

/// The companions of such a Namespace alone say what they are for, so each of them is observed once.
#[test]
fn a_namespace_without_an_owner_is_looked_at_once_however_many_objects_it_has() {
    let mut world = with_none();
    world.seal("keep-dfw-1");
    world.index.owners.remove(HUB);
    let object = |name: &str| ObjectRef::new(world.kind, &HUB.into(), &name.into());
    let change = Change::Cluster {
        sources: Vec::new(),
        hubs: BTreeSet::new(),
        pinned: vec![object("gold"), object("iron")],
    };
    let mut keys = Vec::new();
    crate::triggers::triggers(&world.index, &change, &mut keys);
    let kind = TableId::Companions(super::adopted::seals(&world));
    keys.retain(|key| key.kind == world.index.kind_of(kind));
    assert_eq!(keys, [world.index.hub_key(kind, HUB, "wax")]);
}

/// A move that only takes a companion off its members does not wait for those of others.
#[test]
fn moves_that_only_withdraw_need_no_permit() {
    let mut world = with_none();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Preserve, &applied());
    world.seal("keep-dfw-1");
    world.leaves();
    assert_eq!(world.seal_decides(None), "to with-none");
    assert_eq!(class(&world), None);
    world.seal("with-none");
    world.joins("m-dfw-1", None);
    assert_eq!(world.seal_decides(None), "to keep-dfw-1");
    assert_eq!(class(&world), Some(Class::Update), "back to its member");
    world.source(&super::adopted::names(
        &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ));
    world.at(Stage::Withdraw, &applied());
    assert_eq!(world.seal_decides(None), "to park-dfw-1");
    assert_eq!(class(&world), None);
    let mut world = shared();
    pins(&mut world, "dfw-2", "m-dfw-2");
    let both = ("with-dfw-1.dfw-2", &["dfw-1", "dfw-2"][..]);
    world.seal_given(&BOTH, both.0, both, &applied());
    world.leaves();
    assert_eq!(world.seal_decides(None), "to with-dfw-2");
    assert_eq!(class(&world), None, "off one of two");
    let mut world = with_none();
    world.pin(&json!({"delivered": true}));
    world.leaves();
    world.seal_given(
        &["default/gold", "default/gone"],
        "with-none",
        ("with-none", &[]),
        &json!([]),
    );
    assert_eq!(world.seal_decides(None), "to count");
    assert_eq!(class(&world), Some(Class::Update), "that withdraws nothing");
}

/// The gateway makes the policy again if somebody deletes it.
#[test]
fn the_lane_of_one_that_stays_is_wanted() {
    for (lane, kept) in [("keep-dfw-1", json!([SEAL])), ("with-dfw-1", json!([]))] {
        for is_known in [true, false] {
            let mut world = with_none();
            world.pin(&json!({"delivered": true, "kept": kept}));
            world.at(Stage::Suspend, &applied());
            world.seal(lane);
            if is_known {
                world.joins("m-new", None);
            } else {
                world.leaves();
                world.index.hub.clusters.set_failing(true);
            }
            let wanted = observed(&world).policy.map(|lane| lane.name(&world.index.kinds));
            assert_eq!(wanted.as_deref(), Some(lane));
        }
    }
}
