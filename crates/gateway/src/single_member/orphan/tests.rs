//! The steps by which an orphan ends.

use super::*;
use crate::index::{
    fixture::{self, HUB},
    rows::Strings,
};
use fedgate_api::keys;
use fedgate_engine::key::Plane;
use fedgate_kinds::{CompanionKinds, Kinds};
use serde_json::json;
use std::{path::Path, sync::LazyLock};

static PIN: LazyLock<Arc<Pin>> = LazyLock::new(|| {
    let text = r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-gold"],"sourceUid":"u","delivered":true}"#;
    Arc::new(Pin::parse(text).unwrap())
});

fn vault() -> FederatedKind {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kinds");
    let kinds = Kinds::load_dir(&folder).unwrap().federated;
    kinds.into_iter().find(FederatedKind::is_exactly_one).unwrap()
}

fn row<D>(uid: &str, digest: D) -> Row<D> {
    Row {
        uid: uid.into(),
        version: 7,
        deleting: false,
        partial: false,
        digest,
        body: None,
    }
}

fn copy(kind: &FederatedKind, lane: &str) -> Row<HubCopy> {
    let mut copy = fixture::copy("gold", "DFW");
    copy["metadata"]["labels"][keys::LANE] = json!(lane);
    let object = serde_json::from_value(copy).unwrap();
    row("c-gold", HubCopy::read(&object, kind, &mut Strings::default()))
}

fn binding(kind: &FederatedKind, lane: &str) -> Row<Binding> {
    let object = json!({"metadata": {"labels": {keys::BINDING_ID: "id-1"}, "annotations": {keys::CLAIM_NAME: lane},
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "Vault", "name": "gold", "uid": "c-gold"}]},
        "spec": {"resource": {"apiVersion": "example.fedgate.dev/v1", "kind": "Vault", "name": "gold"}, "suspension": {"dispatching": true}}});
    let kinds = vec![kind.clone()].into();
    let object = serde_json::from_value(object).unwrap();
    row(
        "b",
        Binding::read(
            &object,
            &kinds,
            &CompanionKinds::default(),
            &mut Strings::default(),
        ),
    )
}

/// An orphan whose policy to stop it is there, and what was observed of it.
struct Scene<'a> {
    copy: Option<&'a Row<HubCopy>>,
    binding: Option<&'a Row<Binding>>,
    pin: Option<&'a Arc<Pin>>,
    stopped: Option<String>,
    cluster: Option<PinnedCluster>,
    seen: (Option<Observation>, u32),
}

/// Words for the next step of an orphan, whose policy to stop it is there.
fn step<'a>(kind: &'a FederatedKind, change: impl FnOnce(&mut Scene<'a>)) -> String {
    let maps = crate::index::Resources::default()[crate::index::TableId::Pins].clone();
    let record = Target::namespaced(Plane::Hub, &maps, keys::SYSTEM_NAMESPACE, "fedgate-pins-a1");
    let mut s = Scene {
        copy: None,
        binding: None,
        pin: Some(&PIN),
        stopped: Some("vault-drop-dfw-1".to_owned()),
        cluster: Some(PinnedCluster::Same),
        seen: (None, 0),
    };
    change(&mut s);
    let orphan = Orphan {
        kind: (KindId::FIRST, kind),
        target: Target::namespaced(Plane::Hub, &kind.resource, HUB, "gold"),
        copy: s.copy,
        binding: s.binding,
        pin: s.pin,
        adopted: AdoptedState::default(),
        record: Record {
            target: Some(record),
            version: Some(("r".into(), "7".to_owned())),
            key: "k".to_owned(),
            identity: Vec::new(),
            is_full: false,
        },
        withdrawing: s.stopped,
        cluster: s.cluster,
    };
    let (observation, count) = s.seen;
    let mut probing = Probing { observation, count };
    match next(&orphan, &mut probing) {
        MemberStep::Wait(requeue) if probing.count > count => format!("again {requeue:?}"),
        MemberStep::Wait(_) => "wait".to_owned(),
        MemberStep::Write { policy, .. } => format!("want {policy:?}"),
        MemberStep::Probe(probe) => format!("look {probe:?}"),
        MemberStep::Apply(effect) => {
            let word = effect.reason.label();
            if let Write::Merge { patch } = &effect.write
                && word == "remove_pin"
            {
                let version = json!({"uid": "r", "resourceVersion": "7"});
                assert_eq!(patch["metadata"], version, "nothing newer is undone");
            }
            word.to_owned()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_orphan_is_stopped_then_deleted_then_looked_for_and_let_go_last() {
    let kind = vault();
    let pinned = copy(&kind, "vault-pin-dfw-1");
    assert_eq!(step(&kind, |s| s.copy = Some(&pinned)), "change_lane");
    let wants = step(&kind, |s| (s.copy, s.stopped) = (Some(&pinned), None));
    assert!(wants.starts_with("want At"), "{wants}");
    let stopped = copy(&kind, "vault-drop-dfw-1");
    assert_eq!(
        step(&kind, |s| s.copy = Some(&stopped)),
        "wait",
        "until its binding says so"
    );
    let (drop, pin) = (
        binding(&kind, "vault-drop-dfw-1"),
        binding(&kind, "vault-pin-dfw-1"),
    );
    let looks = step(&kind, |s| (s.copy, s.binding) = (Some(&stopped), Some(&drop)));
    assert!(looks.contains("Works"), "{looks}");
    assert_eq!(
        step(&kind, |s| (s.copy, s.binding) = (Some(&stopped), Some(&pin))),
        "wait",
        "by another policy"
    );
    for (seen, decided) in [
        (Observation::WorksStopped, "delete_orphan"),
        (Observation::WorksGoOn, "again After(1s)"),
    ] {
        let next = step(&kind, |s| {
            (s.copy, s.binding, s.seen.0) = (Some(&stopped), Some(&drop), Some(seen));
        });
        assert_eq!(next, decided);
    }
    assert_eq!(
        step(&kind, |s| s.binding = Some(&drop)),
        "wait",
        "the copy is gone, its binding is not"
    );
    assert!(step(&kind, |_| ()).contains("Member"));
    for (seen, decided) in [
        (Observation::Absent, "remove_pin"),
        (Observation::Unknown("no".to_owned()), "again After(4s)"),
    ] {
        assert_eq!(step(&kind, |s| s.seen = (Some(seen), 2)), decided);
    }
    for seen in [None, Some(Observation::Absent)] {
        for cluster in [
            PinnedCluster::Replaced,
            PinnedCluster::Gone,
            PinnedCluster::Unknown,
        ] {
            let next = step(&kind, |s| {
                (s.cluster, s.seen) = (Some(cluster), (seen.clone(), 2));
            });
            assert_eq!(next, "again After(4s)", "{cluster:?}: it may be another one");
        }
    }
}

#[test]
fn a_copy_without_a_pin_is_deleted_only_if_it_was_delivered_nowhere() {
    let kind = vault();
    for (lane, decided) in [
        ("vault-choose-dfw", "delete_orphan"),
        ("vault-drop-dfw-1", "delete_orphan"),
        ("vault-pin-dfw-1", "wait"),
        ("vault-hold-dfw-1", "wait"),
    ] {
        let copy = copy(&kind, lane);
        assert_eq!(
            step(&kind, |s| (s.copy, s.pin) = (Some(&copy), None)),
            decided,
            "{lane}"
        );
    }
}

#[test]
fn an_orphan_that_its_member_has_ended_waits_for_no_member() {
    let kind = vault();
    let text = r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-gold"],"sourceUid":"u","delivered":true,
        "ended":{"at":"2026-01-01T00:00:00Z","gone":true}}"#;
    let over = Arc::new(Pin::parse(text).unwrap());
    for cluster in [
        PinnedCluster::Same,
        PinnedCluster::Gone,
        PinnedCluster::Replaced,
        PinnedCluster::Unknown,
    ] {
        let next = step(&kind, |s| (s.pin, s.cluster) = (Some(&over), Some(cluster)));
        assert_eq!(next, "remove_pin", "{cluster:?}");
    }
}
