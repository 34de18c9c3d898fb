//! Tests: the provider's writes for an Instance, decided from an index of server objects.

mod policies;
mod refusals;
mod switched_off;

use super::{
    Provider,
    decide::{self, PodContext},
    observe,
    recovery::{Observations, RecoveryState},
    report::{self, Obstacle},
};
use crate::{
    context::Context,
    index::tables::TableId,
    settings::Settings,
    testing::{Fixture, NS, body, condition, instance, merge, now, settings, words},
};
use fedgate_api::keys;
use fedgate_engine::reconcile::throttle::WriteKind;
use fedgate_engine::runtime::driver::reconcile;
use fedgate_engine::{
    clock::Now,
    key::{Key, Plane::Cell},
    plan::{Plan, Prepared, Requeue},
};
use serde_json::{Value, json};
use std::{sync::atomic::AtomicBool, time::Duration};
use tokio::time::Instant;

fn key() -> Key {
    TableId::Pods.key(NS, "web-0")
}

/// The context of a decision on a Pod of which nothing was observed.
fn around<'a>(settings: &'a Settings, observations: &'a Observations) -> PodContext<'a> {
    PodContext {
        settings,
        successor_in: None,
        held: None,
        observations,
        service_held: None,
        now: Now {
            wall: now(),
            instant: Instant::now(),
        },
    }
}

fn decided_in(fixture: &Fixture, around: &PodContext<'_>) -> Plan<Prepared> {
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    decide::decide(&snapshot, around)
}

fn decided_with(fixture: &Fixture, settings: &Settings, held: Option<&str>) -> Plan<Prepared> {
    let held = held.map(|why| Obstacle::Refused(why.to_owned()));
    let none = Observations::default();
    let around = PodContext {
        held: held.as_ref(),
        ..around(settings, &none)
    };
    decided_in(fixture, &around)
}

fn decided(fixture: &Fixture) -> Plan<Prepared> {
    decided_with(fixture, &settings(), None)
}

fn settle_with(fixture: &mut Fixture, settings: &Settings) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..10 {
        let plan = decided_with(fixture, settings, None);
        if plan.is_idle() {
            return all;
        }
        all.extend(words(&plan.effects));
        fixture.perform(&plan.effects);
    }
    panic!("it never rests: {all:#?}");
}

fn settle(fixture: &mut Fixture) -> Vec<String> {
    settle_with(fixture, &settings())
}

fn with(change: &Value) -> Fixture {
    let mut source = instance("web", 0);
    source["spec"]["controller"]["schedulingGates"] = json!([]);
    merge(&mut source, change);
    let mut fixture = Fixture::new(settings());
    fixture.has(&Cell, TableId::Instances, source);
    fixture
}

fn running() -> Fixture {
    let mut fixture = with(&json!({}));
    settle(&mut fixture);
    let up = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [condition("Ready", "True", "Up")]}});
    let enqueued = fixture.change(&Cell, TableId::Pods, NS, "web-0", &up);
    assert_eq!(enqueued, [key()]);
    assert_eq!(
        settle(&mut fixture),
        ["cell: patch instances/status web-0: instance_report"]
    );
    fixture
}

fn stored(fixture: &Fixture) -> &Value {
    fixture.get(&Cell, TableId::Instances, NS, "web-0").unwrap()
}

fn said(fixture: &Fixture) -> [String; 2] {
    let conditions = stored(fixture)["status"]["conditions"].as_array().unwrap();
    ["Programmed", "Available"].map(|type_| {
        let c = conditions.iter().find(|c| c["type"] == type_);
        c.map_or_else(
            || "-".to_owned(),
            |c| {
                format!(
                    "{} {}",
                    c["status"].as_str().unwrap(),
                    c["reason"].as_str().unwrap()
                )
            },
        )
    })
}

fn finalizers(fixture: &Fixture) -> Vec<String> {
    let all = stored(fixture)["metadata"]["finalizers"].as_array().unwrap();
    all.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn behind_a_gate_nothing_is_done() {
    let gated = with(&json!({"spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}}));
    assert_eq!(decided(&gated), Plan::default());
}

#[test]
fn what_is_made_by_hand_is_not_run() {
    let by_hand = with(&json!({"metadata": {"ownerReferences": null}}));
    assert_eq!(decided(&by_hand), Plan::default());
}

#[test]
fn finalizer_pod_service_and_report_come_in_this_order() {
    let mut fixture = with(&json!({}));
    assert_eq!(
        settle(&mut fixture),
        [
            "cell: patch instances web-0: provider_finalizer",
            "cell: patch namespaces ns-a1: namespace_pod_security",
            "cell: create pods web-0: pod",
            "cell: create services web-0: service",
            "cell: patch instances/status web-0: instance_report"
        ]
    );
    assert_eq!(
        said(&fixture),
        ["Unknown ProgrammingInProgress", "Unknown Provisioning"]
    );
    let fixture = running();
    assert_eq!(said(&fixture), ["True Programmed", "True Available"]);
    let status = &stored(&fixture)["status"];
    assert_eq!(status["controller"], json!({"observedTemplateHash": "v1-0"}));
    assert_eq!(
        status["networkInterfaces"],
        json!([{"assignments": {"networkIP": "10.0.0.1"}}])
    );
}

#[test]
fn a_deletion_waits_for_pod_and_service_and_then_lets_go() {
    let mut fixture = running();
    let going = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &going);
    // A finalizer delays the end of the Pod.
    fixture.change(
        &Cell,
        TableId::Pods,
        NS,
        "web-0",
        &json!({"metadata": {"finalizers": ["x.example.com/y"]}}),
    );
    for expected in [
        "cell: patch instances/status web-0: instance_report",
        "cell: delete services web-0: service_stopped",
        "cell: delete pods web-0: pod_stopped",
    ] {
        let plan = decided_with(&fixture, &settings(), None);
        assert_eq!(words(&plan.effects), [expected], "one after the other");
        fixture.perform(&plan.effects);
    }
    assert_eq!(settle(&mut fixture), [""; 0]);
    assert_eq!(said(&fixture), ["False Stopping", "False Stopping"]);
    assert!(finalizers(&fixture).contains(&keys::PROVIDER_FINALIZER.to_owned()));
    assert_eq!(fixture.lost(&Cell, TableId::Pods, NS, "web-0"), [key()]);
    assert_eq!(
        settle(&mut fixture),
        ["cell: patch instances web-0: provider_done"]
    );
    assert_eq!(
        finalizers(&fixture),
        [keys::CLAIM_FINALIZER, keys::INSTANCE_FINALIZER]
    );
}

#[test]
fn nothing_stops_while_the_instance_says_that_it_is_ready() {
    for end in [
        json!({"metadata": {"deletionTimestamp": "2026-11-22T10:00:00Z"}}),
        json!({"status": {"suspended": true}}),
    ] {
        let mut fixture = running();
        let mut says = stored(&fixture)["status"]["conditions"]
            .as_array()
            .unwrap()
            .clone();
        says.push(condition("Ready", "True", "Available"));
        let mut ready = json!({"status": {"conditions": says}});
        merge(&mut ready, &end);
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &ready);
        assert_eq!(settle(&mut fixture), Vec::<String>::new());
        says.pop();
        says.push(condition("Ready", "False", "Stopping"));
        let stops = json!({"status": {"conditions": says}});
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &stops);
        let done = settle(&mut fixture);
        assert!(
            done.iter()
                .any(|write| write.starts_with("cell: delete pods web-0")),
            "{done:?}"
        );
    }
}

#[test]
fn a_suspension_takes_the_pod_and_a_resumption_makes_a_new_one() {
    let mut fixture = running();
    fixture.change(
        &Cell,
        TableId::Instances,
        NS,
        "web-0",
        &json!({"status": {"suspended": true}}),
    );
    assert_eq!(
        settle(&mut fixture),
        [
            "cell: delete pods web-0: pod_suspended",
            "cell: patch instances/status web-0: instance_report"
        ]
    );
    assert_eq!(said(&fixture), ["False Suspended", "False Suspended"]);
    assert!(
        fixture.get(&Cell, TableId::Services, NS, "web-0").is_some(),
        "the Service stays"
    );
    fixture.change(
        &Cell,
        TableId::Instances,
        NS,
        "web-0",
        &json!({"status": {"suspended": null}}),
    );
    assert_eq!(
        settle(&mut fixture),
        [
            "cell: create pods web-0: pod",
            "cell: patch instances/status web-0: instance_report"
        ]
    );
    assert_eq!(
        said(&fixture),
        ["Unknown ProgrammingInProgress", "Unknown Provisioning"]
    );
}

#[test]
fn suspended_behind_a_gate_it_is_stopped_and_said() {
    let mut fixture = running();
    let both = json!({"status": {"suspended": true}, "spec": {"controller": {"schedulingGates": [{"name": "Quota"}]}}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &both);
    assert_eq!(settle(&mut fixture)[0], "cell: delete pods web-0: pod_suspended");
    assert_eq!(said(&fixture), ["False Suspended", "False Suspended"]);
}

#[test]
fn a_pod_that_ended_is_replaced_and_the_attempts_are_remembered() {
    let mut fixture = running();
    let failed = json!({"status": {"phase": "Failed", "conditions": [condition("Ready", "False", "Down")]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &failed);
    let plan = decided(&fixture);
    assert_eq!(
        words(&plan.effects),
        ["cell: patch instances/status web-0: instance_report"],
        "it is said before the Pod is gone"
    );
    fixture.perform(&plan.effects);
    let plan = decided(&fixture);
    assert_eq!(
        words(&plan.effects),
        [
            "cell: patch instances web-0: recovery",
            "cell: delete pods web-0: pod_replaced"
        ]
    );
    fixture.perform(&plan.effects);
    assert_eq!(said(&fixture), ["False Failed", "False Failed"]);
    let written = stored(&fixture)["metadata"]["annotations"][keys::RECOVERY].as_str();
    assert_eq!(RecoveryState::parse(written).attempts, 1);
    let (settings, none) = (settings(), Observations::default());
    let pause = PodContext {
        successor_in: Some(Duration::from_secs(2)),
        ..around(&settings, &none)
    };
    let waits = decided_in(&fixture, &pause);
    assert!(
        waits.is_idle() && waits.next == Requeue::After(Duration::from_secs(2)),
        "{waits:?}"
    );
    assert_eq!(
        settle(&mut fixture),
        [
            "cell: create pods web-0: pod",
            "cell: patch instances/status web-0: instance_report"
        ],
        "nothing new is said between two Pods"
    );
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &failed);
    let again = decided(&fixture);
    assert_eq!(again.next, Requeue::After(Duration::from_secs(30)), "{again:?}");
}

#[test]
fn a_former_instances_pod_is_waited_for() {
    let mut fixture = with(&json!({}));
    let former = json!({"metadata": {"namespace": NS, "name": "web-0",
        "ownerReferences": [{"apiVersion": "x/v1", "kind": "Instance", "name": "web-0", "uid": "u-old", "controller": true}]}});
    fixture.has(&Cell, TableId::Pods, former);
    let written = settle(&mut fixture);
    assert!(written.iter().all(|one| !one.contains("pods")), "{written:?}");
    assert_eq!(fixture.lost(&Cell, TableId::Pods, NS, "web-0"), [key()]);
    assert_eq!(
        settle(&mut fixture),
        [
            "cell: patch namespaces ns-a1: namespace_pod_security",
            "cell: create pods web-0: pod"
        ]
    );
}

#[test]
fn labels_and_ports_are_mended() {
    let mut fixture = running();
    fixture.change(
        &Cell,
        TableId::Pods,
        NS,
        "web-0",
        &json!({"metadata": {"labels": {keys::INSTANCE_INDEX: "7", "mine": "yes"}}}),
    );
    let plan = decided(&fixture);
    assert_eq!(words(&plan.effects), ["cell: patch pods web-0: provider_labels"]);
    assert_eq!(
        body(&plan.effects[0]),
        json!({"metadata": {"labels": {keys::INSTANCE_INDEX: "0"}}})
    );
    fixture.perform(&plan.effects);
    fixture.change(
        &Cell,
        TableId::Services,
        NS,
        "web-0",
        &json!({"spec": {"selector": {keys::INSTANCE_UID: "other"}}}),
    );
    assert_eq!(settle(&mut fixture), ["cell: patch services web-0: service"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_report_of_progress_takes_no_token() {
    let mut fixture = with(&json!({}));
    loop {
        let (snapshot, plan) = (
            observe::observe(&fixture.context, &key()).unwrap(),
            decided(&fixture),
        );
        if decide::is_progress(&snapshot, &plan) {
            break;
        }
        assert!(!plan.is_idle(), "it says that it is being provisioned");
        fixture.perform(&plan.effects);
    }
    let interval = Duration::from_secs(60);
    fixture.set(|settings| settings.status_interval = interval);
    let rate = fixture.context.settings.progress_rate();
    let (provider, wrote) = (Provider::default(), AtomicBool::new(false));
    let ctx = Context::new(&fixture.context, fixture.context.now().instant, &wrote);
    let first = reconcile(&provider, &ctx, &key()).await;
    assert_eq!(first.ok(), Some(Requeue::After(rate.interval)));
    tokio::time::advance(rate.interval).await;
    for attempt in 1..=3 {
        let end = reconcile(&provider, &ctx, &key()).await;
        assert!(end.is_err(), "the fixture's planes take no write");
        let now = fixture.context.now().instant;
        let wait = provider.progress.wait(&key(), rate, WriteKind::Progress, now);
        assert_eq!(wait, None, "failed attempt {attempt} takes no token");
    }
}

#[test]
fn a_pod_that_is_going_serves_nothing_however_often_it_was_replaced() {
    for recovery in [
        Value::Null,
        json!(json!({"attempts": 2, "notBefore": "2026-05-04T10:00:00Z"}).to_string()),
    ] {
        let mut fixture = running();
        let remembered = json!({"metadata": {"annotations": {keys::RECOVERY: recovery}}});
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &remembered);
        let drained = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z", "finalizers": ["x.example.com/y"]}});
        assert_eq!(
            fixture.change(&Cell, TableId::Pods, NS, "web-0", &drained),
            [key()]
        );
        settle(&mut fixture);
        assert_eq!(
            said(&fixture),
            ["Unknown ProgrammingInProgress", "Unknown Provisioning"],
            "{recovery}"
        );
        fixture.lost(&Cell, TableId::Pods, NS, "web-0");
        settle(&mut fixture);
        assert_eq!(
            said(&fixture),
            ["Unknown ProgrammingInProgress", "Unknown Provisioning"]
        );
    }
}

#[test]
fn what_a_runtime_says_is_kept_for_the_log_alone() {
    let mut fixture = running();
    let long = format!("rpc error: node-7 \n{}", "x".repeat(10_000));
    let broken = json!({"status": {"conditions": [], "containerStatuses": [
        {"name": "web", "state": {"waiting": {"reason": "ErrImagePull", "message": long}}},
        {"name": "side", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}},
    ]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &broken);
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    let seen = snapshot.pod.unwrap().digest.seen();
    let raw: Vec<_> = report::raw(&seen).collect();
    assert_eq!(raw.len(), 1);
    let (container, reason, text) = raw[0];
    assert_eq!((container, reason), ("web", "ErrImagePull"));
    assert!(text.starts_with("rpc error: node-7 \n") && text.len() == 256);
    settle(&mut fixture);
    let said = stored(&fixture)["status"]["conditions"].to_string();
    assert!(!said.contains("node-7"), "{said}");
}
