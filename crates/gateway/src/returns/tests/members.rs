//! Secrets that several members return under one name.

use super::*;
use crate::{returns::Returns, testing::Rig};
use fedgate_engine::runtime::driver::reconcile;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing_subscriber::layer::SubscriberExt;

impl World {
    /// The other vault, whose copy says this.
    fn other(&mut self, status: &Value) {
        let mut source = fixture::source(OTHER, "LHR");
        source["metadata"]["labels"] = json!({keys::CITY_CODE: "LHR"});
        let source = self.next(source);
        self.index.shop_has(TableId::Federated(self.kind), &source);
        let mut copy = fixture::copy(OTHER, "LHR");
        copy["metadata"]["labels"][keys::LANE] = json!("vault-pin-lhr-1");
        copy["status"] = status.clone();
        let copy = self.next(copy);
        self.index.hub_has(TableId::Federated(self.kind), &copy);
    }

    /// The Secret that member `lhr-1` returns under a name, for this vault.
    fn planted(&mut self, name: &str, object: &str) -> Value {
        let on_hub = format!("lhr-1.{name}");
        let whose = json!({"metadata": {"name": on_hub, "uid": on_hub,
            "labels": {keys::CELL: "lhr-1", keys::RETURNED_FOR: object},
            "annotations": {keys::SOURCE_UID: format!("u-{object}")},
            "ownerReferences": [{"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": object,
                "uid": format!("c-{object}"), "controller": true}]}, "data": {"token": "cGxhbnRlZA=="}});
        self.secret(name, &whose)
    }

    fn plants(&mut self, name: &str, object: &str) -> Vec<Key> {
        let planted = self.planted(name, object);
        self.index.hub_has(TableId::Returned, &planted)
    }
}

#[test]
fn another_members_secret_of_the_same_name_is_in_nobodys_way() {
    // Of the vault that lives at dfw-1, of its own, which has another name, and of none.
    for object in [NAME, OTHER, "none"] {
        let mut w = World::new();
        w.other(&json!({}));
        assert!(
            w.plants(SECRET, object).contains(&w.key(SECRET)),
            "it is judged: {object}"
        );
        let Write::Create { body, .. } = w.write(SECRET).write else {
            panic!("{object}")
        };
        assert_eq!(body["data"], json!({"token": "b25l"}), "{object}");
        w.own(SECRET, &json!({}));
        assert_eq!(w.decide(SECRET), idle(), "{object}");
        w.loses(SECRET);
        assert_eq!(
            w.write(SECRET).write,
            delete(SECRET),
            "nor does it keep what is gone: {object}"
        );
        let s = observe(&w.index, &w.key(SECRET)).unwrap();
        assert_eq!(s.on_hub.as_deref(), Some("dfw-1.gold-app"), "{object}");
        let own = fixture::object("default", SECRET, "s-gold-app");
        w.index.shop_lost(TableId::Returned, &own);
        let verdict = match w.decide(SECRET) {
            Decision::Wait => None,
            Decision::Quarantine(rejection) => Some(rejection.verdict),
            other => panic!("{other:?}"),
        };
        let wanted = match object {
            NAME => Some(Verdict::OwnerMismatch),
            OTHER => Some(Verdict::NotAllowed),
            _ => None,
        };
        assert_eq!(verdict, wanted.map(VerdictLabel::from), "{object}");
    }
}

#[test]
fn of_two_objects_that_name_one_secret_the_one_that_has_it_keeps_it() {
    const ACCESS: &str = "lab-access";
    let mut w = World::new();
    w.other(&json!({"accessSecret": ACCESS}));
    w.returns(ACCESS, &json!({}));
    w.plants(ACCESS, OTHER);
    w.own(ACCESS, &json!({}));
    assert_eq!(w.decide(ACCESS), idle());
    let mut silvers = owner("u-silver");
    silvers[0]["name"] = json!(OTHER);
    w.own(
        ACCESS,
        &json!({"metadata": {"ownerReferences": silvers}, "data": {"token": "cGxhbnRlZA=="}}),
    );
    assert_eq!(w.decide(ACCESS), idle());
    w.own(ACCESS, &json!({}));
    // Its status names none for a moment, as when its object was made again at the member.
    w.copy("c-gold", "pin", &json!({}));
    assert_eq!(w.decide(ACCESS), Decision::Wait);
    w.copy("c-gold", "pin", &json!({"accessSecret": "new-access"}));
    assert_eq!(
        w.verdict(ACCESS),
        Verdict::NotAllowed,
        "its member deletes it first"
    );
    w.loses(ACCESS);
    assert_eq!(
        w.write(ACCESS).write,
        delete(ACCESS),
        "it goes to the one that names it"
    );
}

#[test]
fn a_body_that_was_read_of_another_members_secret_is_not_written() {
    let mut w = World::new();
    let s = observe(&w.index, &w.key(SECRET)).unwrap();
    let body = serde_json::from_value(w.planted(SECRET, NAME)).unwrap();
    let decision = decide::decide(&s, &w.memory, Some(&body), INTERVAL, w.now);
    assert_eq!(decision, Decision::Read);
}

/// Counts the warnings of this test.
struct Warnings(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if *event.metadata().level() == tracing::Level::WARN {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_returns_many_secrets_fills_no_log() {
    let mut w = World::new();
    let names: Vec<String> = (0..40).map(|at| format!("planted-{at}-app")).collect();
    for name in &names {
        w.returns(name, &labels(keys::RETURNED, "gadgets.example.fedgate.dev"));
    }
    let keys: Vec<Key> = names.iter().map(|name| w.key(name)).collect();
    let rig = Rig::new(w.index, |_, _| (404, json!({})));
    let count = Arc::new(AtomicUsize::new(0));
    let layer = tracing_subscriber::registry().with(Warnings(count.clone()));
    let _guard = tracing::subscriber::set_default(layer);
    let returns = Returns::default();
    for key in &keys {
        reconcile(&returns, &rig.reconcile_once(), key).await.unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 25);
    assert_eq!(rig.context.quarantine.all().len(), keys.len(), "each is known");
    tokio::time::advance(Duration::from_secs(1)).await;
    rig.context.quarantine.release(&keys[0]);
    reconcile(&returns, &rig.reconcile_once(), &keys[0])
        .await
        .unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 26);
}
