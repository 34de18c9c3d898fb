//! Companions that go at the member together with the object that names them.

use super::{
    lanes::{MEMBER, NAME, World, applied, merge, scheduled},
    later,
};
use crate::{
    companions::{self, decide::decide, memory::Memory as Memories},
    federator::memory::{GRACE_PERIOD, Memory},
    index::{
        TableId,
        fixture::{self, HUB, shop},
        single_member::{DeliveryPolicy, Stage},
    },
    single_member::{Observation, Probe, referrers::CompanionRef},
};
use fedgate_api::keys;
use fedgate_engine::{
    key::Key,
    plan::{Requeue, Write},
};
use fedgate_kinds::{CompanionKind, Required};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

pub(super) const SEAL: &str = "Seal.example.fedgate.dev/wax";

pub(super) fn seals(world: &World) -> CompanionKind {
    world
        .index
        .companions
        .id_of("example.fedgate.dev", "Seal")
        .unwrap()
}

/// An object that names seal `wax`, which its project has.
pub(super) fn sealed() -> World {
    seal_in(World::new())
}

fn seal_in(mut world: World) -> World {
    world.policies();
    for lane in [
        DeliveryPolicy::With([MEMBER.into()].into()),
        DeliveryPolicy::TakeOver(MEMBER.into()),
        DeliveryPolicy::Withdraw(MEMBER.into()),
    ] {
        world.policy(&lane);
    }
    world.source(&names(&json!({})));
    world.seal_source(&json!({"motto": "x", "rings": 1}));
    world
}

pub(super) fn names(changes: &Value) -> Value {
    let finalizers = [keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER];
    let mut object = json!({"metadata": {"finalizers": finalizers}, "spec": {"sealName": "wax"}});
    merge(&mut object, changes);
    object
}

impl World {
    /// The source of the companion.
    pub(super) fn seal_source(&mut self, spec: &Value) {
        let mut seal = fixture::object("default", "wax", "s-wax");
        seal["spec"] = spec.clone();
        seal["status"] = json!({"phase": "Broken"});
        let seal = self.next(seal);
        let kind = seals(self);
        self.index.list_shop(TableId::Companions(kind), &[seal]);
    }

    /// The companion in a lane, with its binding; returns the keys that the binding enqueues.
    pub(super) fn seal(&mut self, lane: &str) -> Vec<Key> {
        self.seal_reported(lane, &applied())
    }

    /// Adds the seal as [`Self::seal_given`] does, with reports of members.
    pub(super) fn seal_reported(&mut self, lane: &str, items: &Value) -> Vec<Key> {
        self.seal_given(&["default/gold"], lane, (lane, &[MEMBER]), items)
    }

    /// Adds a seal that these objects name, with the policy of its binding and the members to which the binding gives it.
    pub(super) fn seal_given(
        &mut self,
        objects: &[&str],
        lane: &str,
        (policy, members): (&str, &[&str]),
        items: &Value,
    ) -> Vec<Key> {
        let clusters: Vec<Value> = members.iter().map(|name| json!({"name": name})).collect();
        let mut seal = fixture::companion("wax", &json!(objects));
        seal["metadata"]["labels"] = json!({keys::REFERENCED_DATA: "true", keys::LANE: lane});
        seal["spec"] = json!({"motto": "x", "rings": 1});
        let seal = self.next(seal);
        let kind = seals(self);
        self.index.hub_has(TableId::Companions(kind), &seal);
        let mut binding = fixture::object(HUB, "wax-seal", "b-wax");
        merge(
            &mut binding,
            &json!({
                "metadata": {"generation": 1, "annotations": {keys::CLAIM_NAME: policy}, "labels": {keys::BINDING_ID: "id-wax"},
                    "ownerReferences": [{"apiVersion": "example.fedgate.dev/v1", "kind": "Seal", "name": "wax", "uid": "k-wax"}]},
                "spec": {"resource": {"apiVersion": "example.fedgate.dev/v1", "kind": "Seal", "name": "wax"},
                    "clusters": clusters, "suspension": {"dispatching": policy.starts_with("park-")}},
                "status": scheduled(items),
            }),
        );
        let binding = self.next(binding);
        self.index.hub_has(TableId::Bindings, &binding)
    }

    /// The decision on the companion, in words.
    pub(super) fn seal_decides(&self, seen: Option<Observation>) -> String {
        self.seal_decides_without(&BTreeSet::new(), seen)
    }

    fn seal_decides_without(&self, expired: &BTreeSet<String>, seen: Option<Observation>) -> String {
        let kind = seals(self);
        let observed = companions::observe::observe(
            &self.index,
            CompanionRef {
                kind,
                hub: HUB,
                name: "wax",
            },
            expired,
        );
        let mut snapshot = observed.expect("its lists are complete");
        snapshot.observation = seen;
        let body = json!({"metadata": {"name": "wax", "labels": {"tenant": "x"}}, "status": {"phase": "Broken"},
            "spec": {"motto": "x", "rings": 1}});
        let body = serde_json::from_value(body).unwrap();
        match decide(&snapshot, Some(&body)) {
            companions::decide::Decision::Read => "read".to_owned(),
            companions::decide::Decision::Probe(Probe::Works { member, ids }) => {
                format!("look at works of {} at {member}", ids.join(", "))
            }
            companions::decide::Decision::Probe(look) => panic!("{look:?}"),
            companions::decide::Decision::ProbeAgain => "look again".to_owned(),
            companions::decide::Decision::Do(plan) => plan.effects.first().map_or_else(
                || "nothing".to_owned(),
                |effect| match &effect.write {
                    Write::Create { body, .. } => format!("create {body}"),
                    Write::Merge { patch } => {
                        format!(
                            "to {}",
                            patch["metadata"]["labels"][keys::LANE]
                                .as_str()
                                .unwrap_or("count")
                        )
                    }
                    Write::Delete { uid, .. } => format!("delete {uid}"),
                    Write::Update { .. } => "update".to_owned(),
                    Write::Apply { .. } | Write::Replace { .. } | Write::DeleteNamed => {
                        panic!("{effect:?}")
                    }
                },
            ),
        }
    }
}

#[test]
fn it_is_sent_as_it_is_without_status_and_labels_once_its_object_has_a_member() {
    let mut world = sealed();
    assert_eq!(world.seal_decides(None), "nothing", "no member yet");
    world.pin(&json!({}));
    world.copy("vault-drop-dfw-1", &json!({}));
    let body = json!({"apiVersion": "example.fedgate.dev/v1", "kind": "Seal", "spec": {"motto": "x", "rings": 1},
        "metadata": {"name": "wax", "namespace": HUB,
            "labels": {keys::REFERENCED_DATA: "true", keys::LANE: "with-dfw-1"},
            "annotations": {keys::REFERENCED_BY: "[\"default/gold\"]"}}});
    let decided = world.seal_decides(None);
    let sent: Value = serde_json::from_str(decided.strip_prefix("create ").unwrap()).unwrap();
    assert_eq!(sent, body);
}

#[test]
fn it_is_kept_from_the_first_delivery_of_its_object_on() {
    let mut world = just_sent();
    assert_eq!(world.seal_decides(None), "nothing");
    world.at(Stage::Deliver, &applied());
    let pinned = world.decides();
    assert!(
        pinned[0].contains(&format!(r#""delivered":true,"kept":["{SEAL}"]"#)),
        "{pinned:?}"
    );
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    assert_eq!(world.seal_decides(None), "to keep-dfw-1");
    world.seal("keep-dfw-1");
    assert_eq!(world.seal_decides(None), "nothing");
    // A hand on the hub takes it away: it takes its object over again.
    let kind = seals(&world);
    let lost = world.next(fixture::companion("wax", &json!([])));
    world.index.hub_lost(TableId::Companions(kind), &lost);
    assert!(world.seal_decides(None).contains("keep-dfw-1"));
}

#[test]
fn a_new_spec_that_names_one_is_kept_from_then_on() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true}));
    world.at(Stage::Preserve, &applied());
    world.seal("with-dfw-1");
    let pinned = world.decides();
    assert!(
        pinned[0].starts_with("write_pin") && pinned[0].contains(SEAL),
        "{pinned:?}"
    );
}

#[test]
fn one_that_outgrows_its_references_limit_gets_no_new_data() {
    for (limit, decided) in [(256 * 1024, "update"), (64, "nothing")] {
        let mut world = seal_in(World::with(|kind| {
            let references = kind
                .companions
                .iter_mut()
                .flat_map(|section| &mut section.references);
            references.for_each(|reference| reference.max_bytes = limit);
        }));
        world.pin(&json!({"delivered": true, "kept": [SEAL]}));
        world.at(Stage::Preserve, &applied());
        world.seal("keep-dfw-1");
        world.seal_source(&json!({"motto": "x".repeat(100)}));
        assert_eq!(world.seal_decides(None), decided);
    }
}

/// A tenant may rename its companion for as long as it likes.
#[test]
fn those_that_are_gone_from_the_hub_leave_the_record_when_another_one_joins_it() {
    let mut world = sealed();
    let gone = "Seal.example.fedgate.dev/lacquer";
    world.pin(&json!({"delivered": true, "kept": [gone, "Guild.example.fedgate.dev/unknown"]}));
    world.at(Stage::Preserve, &applied());
    world.seal("with-dfw-1");
    let pinned = world.decides();
    let kept = format!(r#""kept":["Guild.example.fedgate.dev/unknown","{SEAL}"]"#);
    assert!(pinned[0].contains(&kept), "{pinned:?}");
    world.pin(&json!({"delivered": true, "kept": [gone, SEAL]}));
    let next = world.decides();
    assert!(
        next[0].starts_with("update_copy"),
        "no write of its own: {next:?}"
    );
}

#[test]
fn its_object_is_deleted_only_once_it_is_parked_and_it_goes_last() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Preserve, &applied());
    world.seal("keep-dfw-1");
    world.source(&names(
        &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ));
    world.memory.member.deletion.is_unguarded = true;
    assert_eq!(
        world.seal_decides(None),
        "nothing",
        "its object is not being stopped"
    );
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    world.at(Stage::Withdraw, &applied());
    assert!(
        !world
            .decides()
            .iter()
            .any(|word| word.starts_with("look") || word.starts_with("delete"))
    );
    assert_eq!(world.seal_decides(None), "to park-dfw-1");
    let enqueued = world.seal("park-dfw-1");
    let seal = world
        .index
        .hub_key(TableId::Companions(seals(&world)), HUB, "wax");
    assert!(
        enqueued.contains(&seal),
        "its end waits for its binding: {enqueued:?}"
    );
    assert_eq!(world.seal_decides(None), "nothing", "its object is there");
    assert_eq!(world.decides(), ["look at works of id-1, id-wax at dfw-1"]);
    world.memory.member.probing.observation = Some(Observation::WorksStopped);
    assert_eq!(world.decides(), ["delete_copy"]);
    world.copy_lost();
    world.binding_lost();
    assert_eq!(
        world.seal_decides(None),
        "nothing",
        "its object has its member still"
    );
    world.record(&json!({}));
    assert_eq!(world.seal_decides(None), "look at works of id-wax at dfw-1");
    assert_eq!(world.seal_decides(Some(Observation::WorksGoOn)), "look again");
    assert_eq!(
        world.seal_decides(Some(Observation::WorksStopped)),
        "delete k-wax"
    );
}

/// An object that its member was just given, and of which it has said nothing.
fn just_sent() -> World {
    let mut world = sealed();
    world.pin(&json!({}));
    world.at(Stage::Deliver, &json!([]));
    world.seal("with-dfw-1");
    world
}

/// The next write records that the seal went with its object, and there is no other.
fn assert_records(world: &mut World) {
    let recorded = world.decides();
    assert!(
        matches!(recorded.as_slice(), [pin] if pin.contains(&format!(r#""delivered":false,"kept":["{SEAL}"]"#))),
        "{recorded:?}"
    );
}

/// The member may have it, and have made the companion part of it, before anybody is told.
#[test]
fn one_of_an_object_that_was_just_sent_is_recorded_before_its_object_is_stopped() {
    let mut world = just_sent();
    world.source(&names(
        &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ));
    world.memory.member.deletion.is_unguarded = true;
    assert_records(&mut world);
    world.pin(&json!({"kept": [SEAL]}));
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
    world.at(Stage::Withdraw, &json!([]));
    assert_eq!(world.decides(), [""; 0], "its companion goes on");
    assert_eq!(world.seal_decides(None), "to park-dfw-1");
    world.seal("park-dfw-1");
    assert_eq!(world.decides(), ["look at works of id-1, id-wax at dfw-1"]);
}

/// With its namespace its sources may go before it.
#[test]
fn one_whose_source_is_gone_is_recorded_too() {
    let mut world = just_sent();
    world.index.list_shop(TableId::Companions(seals(&world)), &[]);
    world.source(&names(
        &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ));
    world.memory.member.deletion.is_unguarded = true;
    let recorded = world.decides();
    assert!(recorded[0].contains(SEAL), "{recorded:?}");
}

#[test]
fn one_that_another_object_has_now_holds_up_no_deletion() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Withdraw, &applied());
    world.source(&json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}));
    world.seal("keep-dfw-1");
    assert_eq!(world.decides(), [""; 0], "it is its own");
    let mut others = fixture::companion("wax", &json!(["default/aurum"]));
    others["metadata"]["labels"] = json!({keys::REFERENCED_DATA: "true", keys::LANE: "keep-dfw-1"});
    let others = world.next(others);
    world.index.hub_has(TableId::Companions(seals(&world)), &others);
    assert_eq!(world.decides(), ["look at works of id-1 at dfw-1"]);
}

#[test]
fn a_deletion_hears_of_one_that_its_object_names_no_longer() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Withdraw, &applied());
    world.source(&json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}));
    let enqueued = world.seal("park-dfw-1");
    let key = world.index.source_key(world.kind, &shop(), "default", NAME);
    assert!(enqueued.contains(&key), "{enqueued:?}");
}

#[test]
fn one_of_an_object_that_is_sent_and_strays_is_recorded_first() {
    let mut world = just_sent();
    let lane = world.name(&world.lane(Stage::Deliver));
    world.binding(&lane, &["dfw-2"], &json!([]));
    world.decides();
    world.now = later(world.now, GRACE_PERIOD);
    assert_records(&mut world);
    world.pin(&json!({"kept": [SEAL]}));
    assert_eq!(world.decides(), ["change_lane vault-drop-dfw-1"]);
}

#[test]
fn one_that_is_no_longer_named_stays_until_the_member_has_had_the_new_spec_for_a_while() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Preserve, &applied());
    world.seal("keep-dfw-1");
    world.source(&json!({"metadata": {"generation": 2,
        "finalizers": [keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER]}}));
    let leaving = |world: &World| {
        let kind = seals(world);
        let observed = companions::observe::observe(
            &world.index,
            CompanionRef {
                kind,
                hub: HUB,
                name: "wax",
            },
            &BTreeSet::new(),
        );
        observed
            .unwrap()
            .leaving
            .into_iter()
            .map(|one| one.is_applied)
            .collect::<Vec<_>>()
    };
    assert_eq!(leaving(&world), [false], "the new spec is not at the member");
    let lane = world.name(&world.lane(Stage::Preserve));
    let generation = json!({"metadata": {"annotations": {keys::SOURCE_GENERATION: "2"}}});
    world.copy(&lane, &generation);
    world.binding_with(
        &lane,
        &[MEMBER],
        &applied(),
        &json!([{"type": "FullyApplied", "status": "True"}]),
    );
    assert_eq!(leaving(&world), [true]);
    let ready = |world: &mut World, status: &str| {
        let seal = world.index.hub_key(TableId::Companions(seals(world)), HUB, "wax");
        let enqueued = world.ready(status);
        assert!(enqueued.contains(&seal), "{enqueued:?}");
    };
    ready(&mut world, "False");
    assert_eq!(leaving(&world), [false], "what the hub says of it is old");
    ready(&mut world, "True");
    assert_eq!(leaving(&world), [true]);
    assert_eq!(world.seal_decides(None), "nothing");
    let expired = BTreeSet::from(["default/gold".to_owned()]);
    assert_eq!(world.seal_decides_without(&expired, None), "to park-dfw-1");
}

/// Karmada says that the old spec is applied until the member has answered to the new one.
#[test]
fn a_member_that_refuses_the_new_spec_within_the_time_keeps_one_that_only_the_old_one_names() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Preserve, &applied());
    world.seal("keep-dfw-1");
    world.source(&json!({"metadata": {"generation": 2,
        "finalizers": [keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER]}}));
    let lane = world.name(&world.lane(Stage::Preserve));
    world.copy(
        &lane,
        &json!({"metadata": {"annotations": {keys::SOURCE_GENERATION: "2"}}}),
    );
    let key = world
        .index
        .hub_key(TableId::Companions(seals(&world)), HUB, "wax");
    let says = |world: &mut World, status: &str| {
        let conditions = json!([{"type": "FullyApplied", "status": status}]);
        let enqueued = world.binding_with(&lane, &[MEMBER], &applied(), &conditions);
        assert!(enqueued.contains(&key), "{enqueued:?}");
    };
    let mut memory = Memories::default();
    let mut waits = |world: &mut World, time: u64| {
        world.now = later(world.now, Duration::from_secs(time));
        let expired = memory.expired(world.now);
        let observed = companions::observe::observe(
            &world.index,
            CompanionRef {
                kind: seals(world),
                hub: HUB,
                name: "wax",
            },
            &expired,
        );
        let next = memory.note(&observed.unwrap(), world.now);
        (world.seal_decides_without(&expired, None), next)
    };
    let minute = Requeue::After(Duration::from_mins(1));
    says(&mut world, "True");
    assert_eq!(waits(&mut world, 0), ("nothing".to_owned(), minute));
    says(&mut world, "False");
    let refused = ("nothing".to_owned(), Requeue::AwaitChange);
    assert_eq!(waits(&mut world, 59), refused);
    assert_eq!(
        waits(&mut world, 600),
        refused,
        "it needs what the old spec names"
    );
    says(&mut world, "True");
    assert_eq!(
        waits(&mut world, 0),
        ("nothing".to_owned(), minute),
        "from now on"
    );
    says(&mut world, "False");
    let (decided, _) = waits(&mut world, 60);
    assert_eq!(decided, "nothing", "the refusal comes with the end of the time");
    says(&mut world, "True");
    assert_eq!(waits(&mut world, 1), ("nothing".to_owned(), minute));
    assert_eq!(waits(&mut world, 60).0, "to park-dfw-1");
}

#[test]
fn a_second_object_that_names_it_waits() {
    let mut world = sealed();
    world.pin(&json!({"delivered": true, "kept": [SEAL]}));
    world.at(Stage::Preserve, &applied());
    world.seal("keep-dfw-1");
    let mut other = fixture::source("aurum", "DFW");
    merge(
        &mut other,
        &json!({"kind": "Vault", "apiVersion": "example.fedgate.dev/v1", "metadata": {"labels": {keys::CITY_CODE: "DFW"}}}),
    );
    merge(&mut other, &names(&json!({})));
    let other = world.next(other);
    world.index.shop_has(TableId::Federated(world.kind), &other);
    assert_eq!(
        world.decides(),
        [r#"update_copy vault-pin-dfw-1 {"sealName":"wax","size":1}"#],
        "{NAME} has it"
    );
    world.name = "aurum";
    world.memory = Memory::default();
    assert_eq!(world.says(), ["Federated CompanionShared"]);
    assert!(!world.decides().iter().any(|word| word.contains("copy")));
}

#[test]
fn one_that_must_be_named_and_is_not_keeps_its_object_from_the_hub() {
    let mut world = World::with(|kind| {
        for rule in &mut kind.companions.as_mut().unwrap().references {
            if rule.resource.kind == "Seal" {
                rule.required = Required::Always;
            }
        }
    });
    world.policies();
    let new = |spec: &Value| json!({"metadata": {"finalizers": []}, "spec": spec});
    world.source(&new(&json!({})));
    assert_eq!(world.says(), ["Federated SourceNotFound"]);
    let decided = world.decides();
    assert!(
        decided.iter().all(|word| word == "return_status"),
        "not even the project's finalizers: {decided:?}"
    );
    world.source(&new(&json!({"sealName": "wax"})));
    assert_eq!(
        world.says(),
        ["Federated SourceNotFound"],
        "it is named and not there"
    );
    let kind = seals(&world);
    let seal = fixture::object("default", "wax", "s-wax");
    world.index.list_shop(TableId::Companions(kind), &[seal]);
    assert_eq!(world.decides(), ["announce"], "the event of its source");
    world.source(&names(&json!({})));
    assert!(
        world.decides().iter().any(|word| word.starts_with("create_copy")),
        "then its copy"
    );
}
