//! Tests of decisions on interpreters: the exact effects, and no others.

use super::{
    Interpreters,
    decide::{Decision, RESTORE_EVERY, Snapshot, decide},
    observe,
};
use crate::index::{GatewayIndex, Resources, TableId, networking::WorkloadChecks, rows::InterpreterDigest};
use fedgate_engine::{
    clock::Now,
    diff::Digest,
    key::Plane,
    plan::{Effect, Endpoint, ExactFields, Plan, Requeue, Target, Write},
    plane::watch::WatchEvent,
    store::table::Row,
};
use fedgate_kinds::{FederatedKind, KindId, PerKind};
use kube::core::DynamicObject;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tokio::time::Instant;

static KINDS: LazyLock<Arc<PerKind<FederatedKind>>> =
    LazyLock::new(|| Arc::new(FederatedKind::builtin().unwrap().into()));

const OURS: &str = "workloaddeployment";

fn now() -> Now {
    Now {
        wall: jiff::Timestamp::UNIX_EPOCH,
        instant: Instant::now(),
    }
}

fn later(now: Now, by: Duration) -> Now {
    Now {
        instant: now.instant + by,
        ..now
    }
}

type Named = (Arc<str>, Row<InterpreterDigest>);

fn row(name: &str, kind: Option<KindId>, content: Digest, operations: &[&str]) -> Named {
    let digest = InterpreterDigest {
        kind,
        content,
        operations: operations.iter().map(|o| Arc::from(*o)).collect(),
    };
    let row = Row {
        uid: "u".into(),
        version: 7,
        deleting: false,
        partial: false,
        digest,
        body: None,
    };
    (name.into(), row)
}

fn equal() -> Named {
    let content = Digest::of(&KINDS[KindId::FIRST].interpreter_object()["spec"]);
    row(OURS, Some(KindId::FIRST), content, &["statusReflection"])
}

fn edited() -> Named {
    row(
        OURS,
        Some(KindId::FIRST),
        Digest::of(&json!("edited")),
        &["statusReflection"],
    )
}

fn snapshot(name: &str, rows: Vec<Named>) -> Snapshot {
    Snapshot {
        kinds: KINDS.clone(),
        resource: Resources::default()[TableId::Interpreters].clone(),
        name: name.into(),
        rows,
        restored: None,
    }
}

fn apply(reason: &'static str) -> Plan<fedgate_engine::plan::Prepared> {
    Plan::one(Effect {
        target: Target::cluster(Plane::Hub, &Resources::default()[TableId::Interpreters], OURS),
        endpoint: Endpoint::Main,
        write: Write::Apply {
            body: KINDS[KindId::FIRST].interpreter_object(),
            exact: ExactFields::roots(["spec"]),
        },
        reason: fedgate_engine::plan::ReasonLabel::new(reason),
    })
}

fn decision(plan: Plan<fedgate_engine::plan::Prepared>, drift: bool) -> Decision {
    Decision {
        plan,
        drift,
        duplicates: BTreeMap::new(),
    }
}

#[tokio::test]
async fn an_absent_one_is_created_and_an_equal_one_left_alone() {
    let absent = decide(&snapshot(OURS, vec![]), true, now());
    assert_eq!(absent, decision(apply("create_interpreter"), false));
    let rest = decide(&snapshot(OURS, vec![equal()]), true, now());
    assert_eq!(rest, decision(Plan::default(), false));
}

#[tokio::test]
async fn an_edited_one_is_restored_once_then_at_most_once_a_minute() {
    let now = now();
    let mut s = snapshot(OURS, vec![edited()]);
    assert_eq!(
        decide(&s, true, now),
        decision(apply("restore_interpreter"), true)
    );
    s.restored = Some(now.instant);
    let again = decide(&s, true, later(now, Duration::from_secs(20)));
    assert_eq!(
        again,
        decision(Plan::wait(Requeue::After(Duration::from_secs(40))), true)
    );
    assert_eq!(
        decide(&s, true, later(now, RESTORE_EVERY)),
        decision(apply("restore_interpreter"), true)
    );
    s.rows = vec![equal()];
    assert_eq!(
        decide(&s, true, now),
        decision(Plan::default(), false),
        "nothing is left to wait for"
    );
    s.rows = vec![];
    assert_eq!(
        decide(&s, true, now),
        decision(apply("create_interpreter"), false),
        "one that is missing is made at once"
    );
}

#[tokio::test]
async fn one_that_is_being_deleted_is_awaited() {
    for (name, mut row) in [equal(), edited()] {
        row.deleting = true;
        let d = decide(&snapshot(OURS, vec![(name, row)]), true, now());
        assert_eq!(d, decision(Plan::default(), false));
    }
}

#[tokio::test]
async fn without_management_drift_is_reported_and_nothing_written() {
    assert_eq!(
        decide(&snapshot(OURS, vec![edited()]), false, now()),
        decision(Plan::default(), true)
    );
    for rows in [vec![], vec![equal()]] {
        assert_eq!(
            decide(&snapshot(OURS, rows), false, now()),
            decision(Plan::default(), false)
        );
    }
}

#[tokio::test]
async fn a_rival_is_reported_and_never_touched() {
    let duplicate = row(
        "theirs",
        Some(KindId::FIRST),
        Digest::of(&json!(1)),
        &["statusReflection", "componentResource"],
    );
    let others = [
        row("other-kind", None, Digest::of(&json!(2)), &["statusReflection"]),
        row(
            "other-operation",
            Some(KindId::FIRST),
            Digest::of(&json!(3)),
            &["componentResource"],
        ),
    ];
    let duplicates = BTreeMap::from([(Arc::from("theirs"), "WorkloadDeployment".to_owned())]);
    let mut rows = vec![equal(), duplicate];
    rows.extend(others);
    for name in [OURS, "theirs", "other-kind"] {
        let d = decide(&snapshot(name, rows.clone()), true, now());
        assert_eq!(
            d,
            Decision {
                plan: Plan::default(),
                drift: false,
                duplicates: duplicates.clone()
            },
            "{name}"
        );
    }
    rows.remove(1);
    assert_eq!(
        decide(&snapshot("theirs", rows), true, now()),
        decision(Plan::default(), false)
    );
}

#[tokio::test]
async fn what_is_reported_is_forgotten_when_it_is_over() {
    let state = Interpreters::default();
    let duplicate = row(
        "theirs",
        Some(KindId::FIRST),
        Digest::of(&json!(1)),
        &["statusReflection"],
    );
    let reconcile_once = |name: &str, rows| {
        state.report(&name.into(), &decide(&snapshot(name, rows), false, now()));
        state.drift()
    };
    assert_eq!(reconcile_once(OURS, vec![edited(), duplicate.clone()]), 2);
    assert_eq!(
        reconcile_once("theirs", vec![edited(), duplicate]),
        2,
        "counted once"
    );
    assert_eq!(reconcile_once("theirs", vec![edited()]), 1);
    assert_eq!(
        reconcile_once(OURS, vec![]),
        0,
        "one that was deleted differs no more"
    );
}

#[test]
fn a_rival_that_was_there_before_the_start_is_seen_once_the_list_is_complete() {
    let mut index = GatewayIndex::new(KINDS.clone(), WorkloadChecks::default());
    let duplicate: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "theirs", "uid": "u1", "resourceVersion": "1"},
        "spec": {
            "target": {"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment"},
            "customizations": {"healthInterpretation": {"luaScript": "return true"}}},
    }))
    .unwrap();
    index.hub_event(TableId::Interpreters, WatchEvent::Init);
    index.hub_event(TableId::Interpreters, WatchEvent::InitApply(Box::new(duplicate)));
    assert!(observe(&index, &OURS.into(), None).is_none());
    index.hub_event(TableId::Interpreters, WatchEvent::InitDone);
    let snapshot = observe(&index, &OURS.into(), None).unwrap();
    let duplicates: Vec<_> = decide(&snapshot, false, now()).duplicates.into_keys().collect();
    assert_eq!(duplicates, [Arc::from("theirs")]);
}
