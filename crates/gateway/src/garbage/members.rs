//! The end of an object that lives at one member and has lost its origin: as a deletion by its tenant, from copy, pin and
//! labels alone (contract: clusters.md §3.4). Pure.

use crate::{
    index::{
        Kept,
        rows::{Binding, HubCopy},
    },
    lane::{self, CopyLane, Lane, Stage},
    member::{Look, Seen, pause},
    pin::{Pin, PinnedCluster},
    reason::WriteReason,
};
use fedgate_engine::{
    plan::{Effect, Endpoint, Plan, Prepared, Requeue, Target, Write},
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, FinishedWhen, KindId};
use serde_json::{Value, json};
use std::sync::Arc;

/// The hub's objects of such an object.
#[derive(Debug, Clone)]
pub(super) struct Snapshot<'a> {
    /// Kind of the object.
    pub(super) kind: (KindId, &'a FederatedKind),
    /// Address of the copy.
    pub(super) target: Target,
    /// The copy.
    pub(super) copy: Option<&'a Row<HubCopy>>,
    /// The binding of the copy's name.
    pub(super) binding: Option<&'a Row<Binding>>,
    /// The pin.
    pub(super) pin: Option<&'a Arc<Pin>>,
    /// The companions that went with the object to its member.
    pub(super) kept: Kept,
    /// Address and UID of the `ConfigMap` with the pin.
    pub(super) record: Option<(Target, Arc<str>, String)>,
    /// Key of the pin in it.
    pub(super) key: String,
    /// Name of the lane in which the copy is stopped, if its policy is there.
    pub(super) stopped: Option<String>,
    /// The Cluster that has the name of the pin's member now.
    pub(super) cluster: Option<PinnedCluster>,
    /// The last look, and how many there were.
    pub(super) seen: (Option<Seen>, u32),
}

/// The next step of its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    /// Nothing now.
    Wait(Requeue),
    /// The policy of this lane is needed.
    Want(Lane),
    /// Read this.
    Look(Look),
    /// Look again after a while.
    LookAgain(Requeue),
    /// Write this.
    Write(Plan<Prepared>),
}

/// Decides the next step.
pub(super) fn next(s: &Snapshot<'_>) -> Next {
    match (s.copy, s.pin) {
        (Some(copy), None) if is_nowhere(s, copy) && !copy.deleting => delete(s, copy),
        (Some(copy), Some(pin)) if !copy.deleting => stop(s, copy, pin),
        (None, Some(pin)) if s.binding.is_none() => confirm(s, pin),
        // Without its pin a copy that was delivered stays: a hand has to write the pin again.
        (Some(_) | None, Some(_) | None) => Next::Wait(Requeue::AwaitChange),
    }
}

/// True if a copy was delivered to no member.
fn is_nowhere(s: &Snapshot<'_>, copy: &Row<HubCopy>) -> bool {
    let lane = CopyLane::read(s.kind.1, copy.digest.lane.as_deref());
    !matches!(lane, CopyLane::At(stage, _) if stage != Stage::Drop)
}

fn delete(s: &Snapshot<'_>, copy: &Row<HubCopy>) -> Next {
    let write = Write::Delete {
        uid: copy.uid.to_string(),
        resource_version: None,
    };
    write_to(&s.target, write, WriteReason::DeleteOrphan)
}

fn write_to(target: &Target, write: Write, reason: WriteReason) -> Next {
    Next::Write(Plan::one(Effect {
        target: target.clone(),
        endpoint: Endpoint::Main,
        write,
        reason: reason.into(),
    }))
}

fn stop(s: &Snapshot<'_>, copy: &Row<HubCopy>, pin: &Arc<Pin>) -> Next {
    let at = CopyLane::read(s.kind.1, copy.digest.lane.as_deref());
    if at != CopyLane::At(Stage::Drop, &pin.member) {
        let Some(name) = &s.stopped else {
            return Next::Want(Lane::At(s.kind.0, Stage::Drop, pin.member.clone()));
        };
        let patch = lane::patch(&copy.uid, &copy.resource_version(), name);
        return write_to(&s.target, Write::Merge { patch }, WriteReason::ChangeLane);
    }
    let own = s
        .binding
        .map(|row| &row.digest)
        .filter(|binding| binding.owner.as_ref() == Some(&copy.uid) && binding.policy == copy.digest.lane);
    let delivery = own.and_then(|binding| binding.delivery.as_deref());
    let Some(delivery) = delivery.filter(|delivery| delivery.suspended) else {
        return Next::Wait(Requeue::AwaitChange);
    };
    match (&s.seen.0, &delivery.id) {
        (Some(Seen::WorksStopped), _) => delete(s, copy),
        (None, Some(_)) if s.kept.goes_on => Next::Wait(Requeue::AwaitChange),
        (None, Some(id)) => Next::Look(Look::Works {
            member: pin.member.clone(),
            ids: std::iter::once(id).chain(&s.kept.ids).cloned().collect(),
        }),
        (Some(_), _) => Next::LookAgain(Requeue::After(pause(s.seen.1))),
        (None, None) => Next::Wait(Requeue::AwaitChange),
    }
}

fn confirm(s: &Snapshot<'_>, pin: &Arc<Pin>) -> Next {
    let is_there = s.cluster == Some(PinnedCluster::Same);
    let asks = s.kind.1.deletion.finished_when == FinishedWhen::MemberAbsent;
    match &s.seen.0 {
        Some(Seen::Absent) if is_there => release(s),
        None if !asks => release(s),
        // Another Cluster under the member's name proves nothing.
        _ if !is_there => Next::LookAgain(Requeue::After(pause(s.seen.1))),
        None => Next::Look(Look::Member {
            pin: pin.clone(),
            id: None,
        }),
        Some(_) => Next::LookAgain(Requeue::After(pause(s.seen.1))),
    }
}

fn release(s: &Snapshot<'_>) -> Next {
    let Some((record, uid, version)) = &s.record else {
        return Next::Wait(Requeue::AwaitChange);
    };
    let metadata = json!({"uid": &**uid, "resourceVersion": version});
    let patch = json!({"metadata": metadata, "data": {s.key.as_str(): Value::Null}});
    write_to(record, Write::Merge { patch }, WriteReason::RemovePin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{
        fixture::{self, HUB},
        rows::Strings,
    };
    use fedgate_api::keys;
    use fedgate_engine::key::Plane;
    use fedgate_kinds::{CompanionKinds, Kinds};
    use std::{path::Path, sync::LazyLock};

    static PIN: LazyLock<Arc<Pin>> = LazyLock::new(|| {
        let text =
            r#"{"member":"dfw-1","memberUid":"m","copyUids":["c-gold"],"sourceUid":"u","delivered":true}"#;
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

    /// Words for the next step of an orphan, whose policy to stop it is there.
    fn step<'a>(kind: &'a FederatedKind, change: impl FnOnce(&mut Snapshot<'a>)) -> String {
        let maps = crate::index::Resources::default()[crate::index::TableId::Pins].clone();
        let record = Target::namespaced(Plane::Hub, &maps, keys::SYSTEM_NAMESPACE, "fedgate-pins-a1");
        let mut s = Snapshot {
            kind: (KindId::FIRST, kind),
            target: Target::namespaced(Plane::Hub, &kind.resource, HUB, "gold"),
            copy: None,
            binding: None,
            pin: Some(&PIN),
            kept: Kept::default(),
            record: Some((record, "r".into(), "7".to_owned())),
            key: "k".to_owned(),
            stopped: Some("vault-drop-dfw-1".to_owned()),
            cluster: Some(PinnedCluster::Same),
            seen: (None, 0),
        };
        change(&mut s);
        match next(&s) {
            Next::Wait(_) => "wait".to_owned(),
            Next::Want(lane) => format!("want {lane:?}"),
            Next::Look(look) => format!("look {look:?}"),
            Next::LookAgain(requeue) => format!("again {requeue:?}"),
            Next::Write(plan) => {
                assert_eq!(plan.effects.len(), 1);
                let word = plan.effects[0].reason.label();
                if let Write::Merge { patch } = &plan.effects[0].write
                    && word == "remove_pin"
                {
                    let version = json!({"uid": "r", "resourceVersion": "7"});
                    assert_eq!(patch["metadata"], version, "nothing newer is undone");
                }
                word.to_owned()
            }
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
            (Seen::WorksStopped, "delete_orphan"),
            (Seen::WorksGoOn, "again After(1s)"),
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
            (Seen::Absent, "remove_pin"),
            (Seen::Unknown("no".to_owned()), "again After(4s)"),
        ] {
            assert_eq!(step(&kind, |s| s.seen = (Some(seen), 2)), decided);
        }
        for seen in [None, Some(Seen::Absent)] {
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
}
