//! Decisions on the Secrets of an object at its member. An index filled by watch events takes the place of the planes.

use super::{
    decide::{self, Body, Decision, Knowledge, Version},
    observe,
};
use crate::{
    index::{ReturnsIndex, TableId},
    reason::Verdict,
};
use fedgate_api::keys;
use fedgate_engine::{
    key::{Key, Plane},
    plan::{Effect, Write},
    plane::watch::WatchEvent,
};
use fedgate_kinds::{KindId, Kinds};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::path::Path;

const NS: &str = "ns-a1";
const NAME: &str = "gold";
const SECRET: &str = "gold-app";
/// Name of [`SECRET`] on the hub.
const ON_HUB: &str = "dfw-1.gold-app";

/// A member with a vault, its Secret, and the hub's Namespace.
struct World {
    index: ReturnsIndex,
    known: Knowledge,
    secret: Value,
    version: u64,
}

fn object(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "X", "metadata": {"namespace": namespace, "name": name, "uid": format!("u-{name}")}})
}

impl World {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds");
        let mut index = ReturnsIndex::new(Kinds::load_dir(&folder).unwrap().federated);
        let tables = index.member_tables().into_iter().chain([TableId::HubNamespaces]);
        for table in tables.collect::<Vec<_>>() {
            index.event(table, WatchEvent::Init);
            index.event(table, WatchEvent::InitDone);
        }
        let mut world = Self {
            index,
            known: Knowledge::new(),
            secret: Value::Null,
            version: 10,
        };
        let mut home = object("", NS);
        home["metadata"]["labels"] =
            json!({keys::UPSTREAM_CLUSTER: "cluster-shop", keys::UPSTREAM_NAMESPACE: "default"});
        world.has(TableId::HubNamespaces, home);
        world.vault("c-1", &json!({}));
        world.secret("b25l", &json!({}));
        world
    }

    fn kind(&self) -> KindId {
        self.index.kinds.ids().next().unwrap()
    }

    fn has(&mut self, table: TableId, mut object: Value) -> Vec<Key> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.keys(table, WatchEvent::Apply(Box::new(object)))
    }

    fn lost(&mut self, table: TableId, object: Value) -> Vec<Key> {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.keys(table, WatchEvent::Delete(Box::new(object)))
    }

    fn keys(&mut self, table: TableId, event: WatchEvent) -> Vec<Key> {
        let (changes, _) = self.index.event(table, event);
        let mut keys = Vec::new();
        for change in &changes {
            self.index.keys_of(change, &mut keys);
        }
        keys
    }

    fn vault(&mut self, copy: &str, status: &Value) -> Vec<Key> {
        let mut vault = object(NS, NAME);
        vault["metadata"]["labels"] = json!({keys::KARMADA_MANAGED: "true"});
        vault["metadata"]["annotations"] = json!({keys::TEMPLATE_UID: copy, keys::SOURCE_UID: "p-gold"});
        vault["status"] = status.clone();
        self.has(TableId::Objects(self.kind()), vault)
    }

    fn secret(&mut self, token: &str, labels: &Value) -> Vec<Key> {
        let mut secret = object(NS, SECRET);
        (secret["type"], secret["data"]) = (json!("Opaque"), json!({"token": token}));
        secret["metadata"]["labels"] = labels.clone();
        self.version += 1;
        secret["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.secret = secret.clone();
        let object: DynamicObject = serde_json::from_value(secret).unwrap();
        self.keys(TableId::Secrets, WatchEvent::Apply(Box::new(object)))
    }

    fn key(&self) -> Key {
        self.index.key(self.kind(), NS, NAME)
    }

    /// Decides until nothing but a write or a wait is left, reading the Secret where that is asked.
    fn decide(&mut self) -> Decision {
        let s = observe(&self.index, &"dfw-1".into(), &self.key()).unwrap();
        let mut body = None;
        loop {
            match decide::decide(&s, &self.known, body.as_ref()) {
                Decision::Read(name) => {
                    let object: DynamicObject = serde_json::from_value(self.secret.clone()).unwrap();
                    let version = Version::read(&object).unwrap();
                    assert!(body.is_none(), "it is read once");
                    body = Some(Body {
                        name,
                        object,
                        version,
                    });
                }
                Decision::Note(name, known) => {
                    self.known.insert(name, known);
                }
                decision => return decision,
            }
        }
    }

    /// The next write, which succeeds.
    fn write(&mut self) -> Effect {
        let Decision::Do(effect, name, after) = self.decide() else {
            panic!("nothing is written")
        };
        match after {
            Some(known) => self.known.insert(name, known),
            None => self.known.remove(&name),
        };
        *effect
    }
}

#[test]
fn a_secret_is_sent_with_the_tenants_identity_its_object_and_the_copy_as_owner() {
    let mut w = World::new();
    let effect = w.write();
    assert_eq!(
        (effect.target.plane, effect.target.name.as_str()),
        (Plane::Hub, ON_HUB)
    );
    let Write::Replace { body } = effect.write else {
        panic!()
    };
    assert_eq!(
        body,
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"token": "b25l"}, "metadata": {
            "name": ON_HUB, "namespace": NS,
            "labels": {keys::UPSTREAM_CLUSTER: "cluster-shop", keys::UPSTREAM_NAMESPACE: "default", keys::CELL: "dfw-1",
                keys::RETURNED: "vaults.example.fedgate.dev", keys::RETURNED_FOR: NAME},
            "annotations": {keys::SOURCE_UID: "p-gold"},
            "ownerReferences": [{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": NAME, "uid": "c-1",
                "controller": true}]}})
    );
    assert_eq!(w.decide(), Decision::Wait, "it is sent once");
}

#[test]
fn another_value_or_another_copy_is_sent_and_another_version_of_the_same_is_not() {
    let mut w = World::new();
    w.write();
    assert_eq!(w.secret("b25l", &json!({"touched": "yes"})), [w.key()]);
    assert_eq!(w.decide(), Decision::Wait);
    w.secret("dHdv", &json!({}));
    assert!(matches!(w.write().write, Write::Replace { .. }));
    w.vault("c-2", &json!({}));
    let Write::Replace { body } = w.write().write else {
        panic!()
    };
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "c-2");
}

#[test]
fn one_that_is_gone_is_deleted_once_whatever_was_known_of_it() {
    for is_known in [true, false] {
        let mut w = World::new();
        if is_known {
            w.write();
        }
        let secret = w.secret.clone();
        assert_eq!(w.lost(TableId::Secrets, secret), [w.key()]);
        let effect = w.write();
        assert_eq!(
            (effect.target.name.as_str(), effect.write),
            (ON_HUB, Write::DeleteNamed)
        );
        assert_eq!(w.decide(), Decision::Wait);
        w.secret("dHdv", &json!({}));
        assert!(matches!(w.write().write, Write::Replace { .. }));
    }
}

#[test]
fn one_that_the_object_no_longer_names_is_deleted_and_one_that_the_kind_does_not_admit_never_sent() {
    let mut w = World::new();
    w.write();
    w.vault("c-1", &json!({"accessSecret": "gold-admin"}));
    assert_eq!(w.decide(), Decision::Wait, "the name fits no pattern");
    w.vault("c-1", &json!({"accessSecret": "lab-access"}));
    let effect = w.write();
    assert_eq!(
        (effect.target.name.as_str(), effect.write),
        ("dfw-1.lab-access", Write::DeleteNamed)
    );
    let mut secret = object(NS, "lab-access");
    secret["data"] = json!({"token": "eA=="});
    w.has(TableId::Secrets, secret.clone());
    secret["metadata"]["resourceVersion"] = json!(w.version.to_string());
    w.secret = secret;
    assert_eq!(w.write().target.name, "dfw-1.lab-access");
    w.vault("c-1", &json!({}));
    let effect = w.write();
    assert_eq!(
        (effect.target.name.as_str(), effect.write),
        ("dfw-1.lab-access", Write::DeleteNamed)
    );
    assert_eq!(w.decide(), Decision::Wait);
}

#[test]
fn an_object_that_karmada_let_go_keeps_what_it_returned_and_one_that_is_deleted_does_not() {
    let mut w = World::new();
    w.write();
    let mut vault = object(NS, NAME);
    vault["metadata"]["annotations"] = json!({keys::TEMPLATE_UID: "c-1", keys::SOURCE_UID: "p-gold"});
    w.has(TableId::Objects(w.kind()), vault.clone());
    assert_eq!(w.decide(), Decision::Wait);
    w.secret("dHdv", &json!({}));
    assert_eq!(w.decide(), Decision::Wait, "nor is anything sent for it");
    assert_eq!(w.lost(TableId::Objects(w.kind()), vault), [w.key()]);
    assert_eq!(w.write().write, Write::DeleteNamed);
    assert_eq!(w.decide(), Decision::Wait);
}

#[test]
fn one_that_is_too_large_is_taken_back_and_then_only_told() {
    let mut w = World::new();
    w.write();
    w.secret(&"AAAA".repeat(1500), &json!({}));
    assert_eq!(w.write().reason.label(), "return_too_large");
    let refused = |decision| matches!(decision, Decision::Refuse(Verdict::TooLarge, _));
    assert!(refused(w.decide()));
    assert!(refused(w.decide()), "it is not read again");
    w.secret("b25l", &json!({}));
    assert!(matches!(w.write().write, Write::Replace { .. }));
}

#[test]
fn what_karmada_delivered_and_what_has_no_home_is_left() {
    let mut w = World::new();
    w.secret("b25l", &json!({keys::KARMADA_MANAGED: "true"}));
    assert_eq!(w.decide(), Decision::Wait);
    let mut w = World::new();
    let mut home = object("", NS);
    home["metadata"]["labels"] = json!({keys::UPSTREAM_CLUSTER: "cluster-shop"});
    assert_eq!(w.has(TableId::HubNamespaces, home), [w.key()]);
    assert_eq!(w.decide(), Decision::Wait, "the hub does not say whose it is");
}

#[test]
fn a_name_that_no_label_holds_is_told() {
    let mut w = World::new();
    let name = "g".repeat(64);
    let mut vault = object(NS, &name);
    vault["metadata"]["labels"] = json!({keys::KARMADA_MANAGED: "true"});
    vault["metadata"]["annotations"] = json!({keys::TEMPLATE_UID: "c", keys::SOURCE_UID: "p"});
    w.has(TableId::Objects(w.kind()), vault);
    let s = observe(&w.index, &"dfw-1".into(), &w.index.key(w.kind(), NS, &name)).unwrap();
    let decision = decide::decide(&s, &w.known, None);
    assert!(
        matches!(decision, Decision::Refuse(Verdict::NoLabelValue, _)),
        "{decision:?}"
    );
}
