//! Decisions on Secrets that come back, and the changes that wake them. A fixture of the index takes the place of the planes.

mod members;

use super::{
    decide::{self, Memory},
    observe,
};
use crate::{
    index::{
        GatewayIndex, TableId,
        fixture::{self, HUB, shop},
        networking::WorkloadChecks,
        single_member::pin,
    },
    projection::Decision,
    reason::Verdict,
};
use fedgate_api::keys;
use fedgate_engine::{
    clock::Now,
    key::Key,
    plan::{Effect, Plan, Write},
    reconcile::quarantine::VerdictLabel,
    store::table::Row,
};
use fedgate_kinds::{CompanionKind, FederatedKind, KindId, Kinds};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};

const NAME: &str = "gold";
const SECRET: &str = "gold-app";
/// A vault that lives at member `lhr-1`.
const OTHER: &str = "silver";
const INTERVAL: Duration = Duration::from_millis(250);

/// A project with a vault that its member has, and what the member has returned.
struct World {
    index: GatewayIndex,
    kind: KindId,
    memory: Memory,
    now: Now,
    version: u64,
}

impl World {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds");
        let kinds = Arc::new(Kinds::load_dir(&folder).unwrap().federated.into());
        let mut index = GatewayIndex::new(kinds, WorkloadChecks::default());
        let kind = index.kinds.position(FederatedKind::is_exactly_one).unwrap();
        for table in index.hub_tables() {
            index.list_hub(table, &[]);
        }
        index.list_hub(TableId::Namespaces, &[fixture::hub_namespace("dfw.keep")]);
        index.engage(shop());
        let live = [
            fixture::namespace("kube-system", "p1", &json!({})),
            fixture::namespace("default", "a1", &json!({})),
        ];
        for table in index.project_tables() {
            index.list_shop(table, if table == TableId::Namespaces { &live } else { &[] });
        }
        let mut world = Self {
            index,
            kind,
            memory: Memory::default(),
            now: fedgate_engine::clock::Clock::system().now(),
            version: 10,
        };
        world.source("u-gold");
        world.pin(&["c-gold"]);
        world.copy("c-gold", "pin", &json!({"accessSecret": "lab-access"}));
        world.returns(SECRET, &json!({}));
        world
    }

    fn next(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        object
    }

    fn source(&mut self, uid: &str) -> Vec<Key> {
        self.source_with(uid, &json!({}))
    }

    /// The object is being deleted.
    fn ends(&mut self) {
        self.source_with(
            "u-gold",
            &json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
        );
    }

    fn source_with(&mut self, uid: &str, changes: &Value) -> Vec<Key> {
        let mut source = fixture::source(NAME, "DFW");
        source["metadata"]["uid"] = json!(uid);
        source["metadata"]["labels"] = json!({keys::CITY_CODE: "DFW"});
        source["spec"] = json!({"size": 1});
        merge(&mut source, changes);
        let source = self.next(source);
        self.index.shop_has(TableId::Federated(self.kind), &source)
    }

    fn copy(&mut self, uid: &str, stage: &str, status: &Value) -> Vec<Key> {
        let mut copy = fixture::copy(NAME, "DFW");
        copy["metadata"]["uid"] = json!(uid);
        copy["metadata"]["labels"][keys::LANE] = json!(format!("vault-{stage}-dfw-1"));
        copy["status"] = status.clone();
        let copy = self.next(copy);
        self.index.hub_has(TableId::Federated(self.kind), &copy)
    }

    fn lose_copy(&mut self) {
        let copy = self.next(fixture::copy(NAME, "DFW"));
        self.index.hub_lost(TableId::Federated(self.kind), &copy);
    }

    fn pin(&mut self, copies: &[&str]) -> Vec<Key> {
        let pin = |member: &str, source: &str| {
            let pin = json!({"member": member, "memberUid": "m", "copyUids": copies, "sourceUid": source, "delivered": true});
            pin.to_string()
        };
        let mut record = fixture::object(keys::SYSTEM_NAMESPACE, &pin::record_name(HUB).unwrap(), "pins");
        let kind = &self.index.kinds[self.kind];
        record["data"] = json!({pin::key(kind, NAME): pin("dfw-1", "u-gold"), pin::key(kind, OTHER): pin("lhr-1", "u-silver")});
        if copies.is_empty() {
            record["data"] = json!({});
        }
        let record = self.next(record);
        self.index.hub_has(TableId::Pins, &record)
    }

    /// The Secret on the hub that `dfw-1` returns under a name, with these changes.
    fn secret(&mut self, name: &str, changes: &Value) -> Value {
        let mut secret = fixture::object(HUB, &format!("dfw-1.{name}"), &format!("h-{name}"));
        (secret["apiVersion"], secret["kind"]) = (json!("v1"), json!("Secret"));
        secret["metadata"]["labels"] = json!({
            keys::UPSTREAM_CLUSTER: shop().label(), keys::UPSTREAM_NAMESPACE: "default", keys::CELL: "dfw-1",
            keys::RETURNED: "vaults.example.fedgate.dev", keys::RETURNED_FOR: NAME,
        });
        secret["metadata"]["annotations"] = json!({keys::SOURCE_UID: "u-gold"});
        secret["metadata"]["ownerReferences"] = json!([{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault",
            "name": NAME, "uid": "c-gold", "controller": true}]);
        (secret["type"], secret["data"]) = (json!("Opaque"), json!({"token": "b25l"}));
        merge(&mut secret, changes);
        self.next(secret)
    }

    fn returns(&mut self, name: &str, changes: &Value) -> Vec<Key> {
        let secret = self.secret(name, changes);
        self.index.hub_has(TableId::Returned, &secret)
    }

    fn loses(&mut self, name: &str) -> Vec<Key> {
        let secret = self.secret(name, &json!({}));
        self.index.hub_lost(TableId::Returned, &secret)
    }

    /// The project's Secret as the gateway makes it, with these changes.
    fn own(&mut self, name: &str, changes: &Value) -> Vec<Key> {
        let mut secret = fixture::object("default", name, &format!("s-{name}"));
        secret["metadata"]["labels"] = json!({keys::RETURNED: "true"});
        secret["metadata"]["ownerReferences"] = owner("u-gold");
        (secret["type"], secret["data"]) = (json!("Opaque"), json!({"token": "b25l"}));
        merge(&mut secret, changes);
        let secret = self.next(secret);
        self.index.shop_has(TableId::Returned, &secret)
    }

    fn key(&self, name: &str) -> Key {
        self.index.return_key(HUB, name).unwrap()
    }

    /// The decision on a Secret whose body was read, if the first one asks for it.
    fn decide(&mut self, name: &str) -> Decision {
        let s = observe(&self.index, &self.key(name)).unwrap();
        match decide::decide(&s, &self.memory, None, INTERVAL, self.now) {
            Decision::Read => {
                let read = |row: &Row<_>| row.digest == s.returned.as_ref().unwrap().digest;
                assert!(s.returned.as_ref().is_some_and(read));
                let body: DynamicObject = serde_json::from_value(self.secret(name, &json!({}))).unwrap();
                decide::decide(&s, &self.memory, Some(&body), INTERVAL, self.now)
            }
            decision => decision,
        }
    }

    fn verdict(&mut self, name: &str) -> VerdictLabel {
        match self.decide(name) {
            Decision::Quarantine(rejection) => rejection.verdict,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, name: &str) -> Effect {
        match self.decide(name) {
            Decision::Do(mut plan) | Decision::Confirm(mut plan) if plan.effects.len() == 1 => {
                plan.effects.remove(0)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn owner(uid: &str) -> Value {
    json!([{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": NAME, "uid": uid}])
}

fn merge(into: &mut Value, change: &Value) {
    match (into.as_object_mut(), change.as_object()) {
        (Some(fields), Some(changes)) => {
            for (key, value) in changes {
                merge(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = change.clone(),
    }
}

fn labels(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn idle() -> Decision {
    Decision::Do(Plan::default())
}

fn delete(name: &str) -> Write {
    Write::Delete {
        uid: format!("s-{name}"),
        resource_version: None,
    }
}

#[test]
fn a_new_one_has_type_data_our_label_and_the_live_object_as_owner_and_nothing_else() {
    let mut w = World::new();
    let effect = w.write(SECRET);
    assert_eq!(effect.reason.label(), "create_return");
    assert_eq!(
        effect.write,
        Write::create(
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"token": "b25l"},
                "metadata": {"name": SECRET, "namespace": "default", "labels": {keys::RETURNED: "true"},
                    "ownerReferences": owner("u-gold")}})
        )
    );
    w.own(SECRET, &json!({}));
    assert_eq!(w.decide(SECRET), idle());
}

#[test]
fn a_changed_one_is_applied_and_an_edited_one_restored() {
    for change in [
        json!({"data": {"token": "dHdv"}}),
        json!({"data": {"more": "dHdv"}}),
    ] {
        let mut w = World::new();
        w.own(SECRET, &change);
        let Write::Apply { body, exact } = w.write(SECRET).write else {
            panic!()
        };
        assert_eq!(body["metadata"]["uid"], "s-gold-app");
        assert_eq!(exact.roots, ["data"]);
    }
    let mut w = World::new();
    let mut controlling = owner("u-gold");
    controlling[0]["controller"] = json!(true);
    w.own(SECRET, &json!({"metadata": {"ownerReferences": controlling}}));
    let Write::Merge { patch } = w.write(SECRET).write else {
        panic!()
    };
    assert_eq!(patch["metadata"]["ownerReferences"], owner("u-gold"));
    assert_eq!(patch["data"], Value::Null, "values stay as they are");
    w.own(SECRET, &json!({"type": "kubernetes.io/tls"}));
    assert_eq!(w.write(SECRET).write, delete(SECRET), "a type is immutable");
}

#[test]
fn one_that_another_owns_or_that_the_kind_does_not_admit_is_quarantined() {
    for (changes, verdict) in [
        (
            labels(keys::UPSTREAM_CLUSTER, "cluster-x"),
            Verdict::IdentityMismatch,
        ),
        (
            labels(keys::UPSTREAM_NAMESPACE, "other"),
            Verdict::IdentityMismatch,
        ),
        (labels(keys::CELL, "lhr-1"), Verdict::OwnerMismatch),
        (
            json!({"metadata": {"ownerReferences": [{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": NAME,
                "uid": "c-other", "controller": true}]}}),
            Verdict::OwnerMismatch,
        ),
        (
            json!({"metadata": {"ownerReferences": []}}),
            Verdict::OwnerMismatch,
        ),
        (json!({"data": {"token": "AAAA".repeat(1500)}}), Verdict::TooLarge),
    ] {
        let mut w = World::new();
        w.returns(SECRET, &changes);
        assert_eq!(w.verdict(SECRET), verdict, "{changes}");
        w.own(SECRET, &json!({"data": {"token": "eA=="}}));
        assert_eq!(
            w.verdict(SECRET),
            verdict,
            "what came back before stays: {changes}"
        );
    }
    let mut w = World::new();
    w.returns(SECRET, &labels(keys::RETURNED, "gadgets.example.fedgate.dev"));
    assert_eq!(w.verdict(SECRET), Verdict::NotAllowed);
    w.own(SECRET, &json!({}));
    assert!(
        matches!(w.decide(SECRET), Decision::Confirm(_)),
        "it stays, because the hub has one of the name"
    );
    let mut w = World::new();
    w.returns("gold-admin", &json!({}));
    assert_eq!(w.verdict("gold-admin"), Verdict::NotAllowed);
    w.returns("other-app", &json!({}));
    assert_eq!(
        w.verdict("other-app"),
        Verdict::NotAllowed,
        "the object gives another name"
    );
}

#[test]
fn a_name_of_the_status_counts_once_the_status_gives_it() {
    let mut w = World::new();
    w.returns("lab-access", &json!({}));
    assert_eq!(w.write("lab-access").reason.label(), "create_return");
    let key = w.key("lab-access");
    assert!(
        w.copy("c-gold", "pin", &json!({})).contains(&key),
        "a status wakes it"
    );
    assert_eq!(w.decide("lab-access"), Decision::Wait);
    w.copy("c-gold", "pin", &json!({"accessSecret": "new-access"}));
    assert_eq!(w.verdict("lab-access"), Verdict::NotAllowed);
}

#[test]
fn nothing_is_made_without_copy_pin_and_live_object() {
    let mut w = World::new();
    w.pin(&[]);
    assert_eq!(w.decide(SECRET), Decision::Wait, "no pin");
    let mut w = World::new();
    w.lose_copy();
    assert_eq!(w.decide(SECRET), Decision::Wait, "no copy");
    let mut w = World::new();
    w.copy("c-2", "drop", &json!({}));
    assert_eq!(w.decide(SECRET), Decision::Wait, "of an earlier copy of the pin");
    let mut w = World::new();
    let key = w.key(SECRET);
    assert!(w.source("u-new").contains(&key), "another object wakes it");
    assert_eq!(w.decide(SECRET), Decision::Wait, "of an earlier object");
}

#[test]
fn a_secret_of_the_tenants_is_never_touched() {
    let mut w = World::new();
    w.own(SECRET, &json!({"metadata": {"ownerReferences": []}}));
    assert_eq!(
        w.verdict(SECRET),
        Verdict::NameTaken,
        "the label alone is not ours"
    );
    w.loses(SECRET);
    assert_eq!(w.decide(SECRET), idle(), "nor is it deleted");
    let mut w = World::new();
    w.index.list_shop(TableId::Companions(CompanionKind::SECRET), &[]);
    let mut own = fixture::object("default", SECRET, "tenant");
    own["type"] = json!("Opaque");
    let key = w.key(SECRET);
    assert!(
        w.index
            .shop_has(TableId::Companions(CompanionKind::SECRET), &own)
            .contains(&key)
    );
    assert_eq!(w.verdict(SECRET), Verdict::NameTaken);
    assert!(
        w.index
            .shop_lost(TableId::Companions(CompanionKind::SECRET), &own)
            .contains(&key),
        "its end wakes"
    );
    w.memory.refused = Some(w.now.instant);
    assert_eq!(w.write(SECRET).reason.label(), "create_return");
}

#[test]
fn a_refused_name_is_asked_for_again_after_a_while() {
    let mut w = World::new();
    w.memory.refused = Some(w.now.instant);
    assert!(matches!(w.decide(SECRET), Decision::Throttled(_)));
}

#[test]
fn one_that_is_gone_on_the_hub_goes_unless_only_its_copy_has_gone() {
    let gone = || {
        let mut w = World::new();
        w.own(SECRET, &json!({}));
        w.loses(SECRET);
        w
    };
    let mut w = gone();
    assert!(
        matches!(w.decide(SECRET), Decision::Confirm(_)),
        "the hub is asked first"
    );
    assert_eq!(w.write(SECRET).write, delete(SECRET));
    for stage in ["drop", "send", "mend", "none"] {
        w.copy("c-2", stage, &json!({}));
        assert_eq!(w.decide(SECRET), Decision::Wait, "{stage}");
    }
    w.copy("c-2", "hold", &json!({}));
    assert_eq!(w.write(SECRET).write, delete(SECRET));
    let mut w = gone();
    w.pin(&[]);
    assert_eq!(
        w.decide(SECRET),
        Decision::Wait,
        "no record tells which member to ask for"
    );
    let mut w = gone();
    w.lose_copy();
    assert_eq!(w.decide(SECRET), Decision::Wait, "the pin holds it");
    let key = w.key(SECRET);
    assert!(w.pin(&[]).contains(&key), "the end of the pin wakes it");
    assert_eq!(
        w.decide(SECRET),
        Decision::Wait,
        "a hub that was made anew has neither copy nor pin"
    );
    w.ends();
    assert_eq!(w.write(SECRET).write, delete(SECRET));
}

#[test]
fn what_the_gateway_of_another_hub_has_made_is_left() {
    let mut w = World::new();
    w.own(SECRET, &json!({}));
    w.loses(SECRET);
    w.index.list_hub(
        TableId::Namespaces,
        &[
            fixture::hub_namespace("dfw.keep"),
            fixture::namespace("kube-system", "hub-1", &json!({})),
        ],
    );
    assert!(matches!(w.decide(SECRET), Decision::Confirm(_)));
    w.source_with(
        "u-gold",
        &json!({"metadata": {"annotations": {keys::HUB: "hub-2"}}}),
    );
    let mut other = fixture::source("other", "DFW");
    other["metadata"]["annotations"][keys::HUB] = json!("hub-1");
    for name in ["a", "b", "c"] {
        other["metadata"]["name"] = json!(name);
        other["metadata"]["uid"] = json!(name);
        w.index.shop_has(TableId::Federated(w.kind), &other);
    }
    assert_eq!(w.decide(SECRET), Decision::Wait);
}

#[test]
fn no_return_keeps_a_dead_owner() {
    let mut w = World::new();
    w.own(SECRET, &json!({"metadata": {"ownerReferences": owner("u-dead")}}));
    let effect = w.write(SECRET);
    assert_eq!(
        (effect.write, effect.reason.label()),
        (delete(SECRET), "replace_return")
    );
    w.loses(SECRET);
    assert_eq!(w.write(SECRET).write, delete(SECRET));
}

#[test]
fn absence_is_no_proof_before_the_lists_are_complete_or_while_a_watch_fails() {
    use fedgate_engine::plane::watch::WatchEvent;
    let mut w = World::new();
    w.own(SECRET, &json!({}));
    w.loses(SECRET);
    w.index.hub_event(TableId::Returned, WatchEvent::Failed);
    assert_eq!(w.decide(SECRET), Decision::Wait);
    let key = w.key(SECRET);
    super::awaits_proof(&mut w.index, &key, HUB);
    w.index.hub_event(TableId::Returned, WatchEvent::Resumed);
    assert_eq!(
        w.index.take_unproven(&fedgate_engine::key::Plane::Hub),
        std::slice::from_ref(&key)
    );
    super::awaits_proof(&mut w.index, &key, HUB);
    assert_eq!(w.index.take_unproven(&fedgate_engine::key::Plane::Hub), []);
    assert!(matches!(w.decide(SECRET), Decision::Confirm(_)));
    w.index.hub_event(TableId::Returned, WatchEvent::Init);
    w.index.hub_event(TableId::Namespaces, WatchEvent::Rewound);
    let mut fresh = World::new();
    fresh.index.engage(shop());
    assert!(observe(&fresh.index, &w.key(SECRET)).is_none());
}

#[test]
fn of_a_kind_without_returns_nothing_is_watched_or_woken() {
    let index = GatewayIndex::fixture();
    assert!(!index.hub_tables().contains(&TableId::Returned));
    assert!(!index.project_tables().contains(&TableId::Returned));
}
