//! Tests: rejections by the API server, and Pods on lost nodes.

use super::*;
use crate::provider::lost;

/// A Pod that stays in deletion for its grace period and one minute: its node counts as lost.
#[test]
fn a_lost_nodes_pod_is_said_and_what_the_server_wants_of_it_is_left_to_people() {
    let after = |fixture: &Fixture, seconds: u64| {
        let snapshot = observe::observe(&fixture.context, &key()).unwrap();
        let (settings, mut observations, first) = (settings(), Observations::default(), Instant::now());
        let seen = lost::event(snapshot.pod.as_ref().unwrap()).into_iter().collect();
        observations.record(seen, first);
        let mut around = around(&settings, &observations);
        around.now.instant = first + Duration::from_secs(seconds);
        decide::decide(&snapshot, &around)
    };
    let gone = json!({"metadata": {"finalizers": ["x.example.com/y"], "deletionGracePeriodSeconds": 30,
        "deletionTimestamp": "2026-05-04T10:00:00Z"}});
    for end in [
        json!({}),
        json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z"}}),
    ] {
        let mut fixture = running();
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &end);
        fixture.change(&Cell, TableId::Pods, NS, "web-0", &gone);
        let going = after(&fixture, 89);
        assert_eq!(going.next, Requeue::After(Duration::from_secs(1)), "{going:?}");
        fixture.perform(&going.effects);
        assert!(!said(&fixture)[1].contains("NodeLost"), "{:?}", said(&fixture));
        let lost = after(&fixture, 90);
        assert_eq!(
            words(&lost.effects),
            ["cell: patch instances/status web-0: instance_report"]
        );
        fixture.perform(&lost.effects);
        assert_eq!(said(&fixture)[1], "Unknown NodeLost");
        let rest = after(&fixture, 200);
        assert!(
            rest.effects
                .iter()
                .all(|effect| effect.reason.label() == "service_stopped"),
            "{rest:?}"
        );
    }
}

#[test]
fn a_service_that_is_refused_stops_no_report_of_the_pod() {
    let mut fixture = with(&json!({}));
    let finalizer = decided(&fixture);
    fixture.perform(&finalizer.effects);
    let refused = |fixture: &Fixture, why: &str| {
        let why = Obstacle::Refused(why.to_owned());
        let (settings, none) = (settings(), Observations::default());
        let around = PodContext {
            service_held: Some(&why),
            ..around(&settings, &none)
        };
        decided_in(fixture, &around)
    };
    let why = "the cell's API server refuses the Service: exceeded quota, used 3";
    for expected in [
        "cell: patch namespaces ns-a1: namespace_pod_security",
        "cell: create pods web-0: pod",
    ] {
        let step = refused(&fixture, why);
        assert_eq!(words(&step.effects), [expected]);
        fixture.perform(&step.effects);
    }
    let up = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [condition("Ready", "True", "Up")]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &up);
    let report = refused(&fixture, why);
    fixture.perform(&report.effects);
    assert_eq!(said(&fixture), ["False ConfigurationError", "True Available"]);
    let again = refused(
        &fixture,
        "the cell's API server refuses the Service: exceeded quota, used 4",
    );
    assert_eq!(again.effects, [], "what differs in numbers alone is no news");
    let down = json!({"status": {"conditions": [condition("Ready", "False", "Down")]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &down);
    let report = refused(&fixture, why);
    fixture.perform(&report.effects);
    assert_eq!(said(&fixture), ["False ConfigurationError", "False Starting"]);
    assert_eq!(
        settle(&mut fixture),
        [
            "cell: create services web-0: service",
            "cell: patch instances/status web-0: instance_report"
        ]
    );
    assert_eq!(said(&fixture), ["True Programmed", "False Starting"]);
}

/// A Pod is rendered once, so a later template that cannot be rendered does not affect a Pod that runs.
#[test]
fn a_pod_that_runs_is_reported_whatever_its_template_could_not_be_any_more() {
    let mut fixture = running();
    let unknown = json!({"spec": {"runtime": {"resources": {"instanceType": "withdrawn"}}}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &unknown);
    assert_eq!(settle(&mut fixture), [""; 0]);
    assert_eq!(said(&fixture), ["True Programmed", "True Available"]);
}

#[test]
fn a_profile_that_a_namespace_has_stays() {
    let mut fixture = with(&json!({}));
    let labels = json!({"metadata": {"labels": {keys::POD_SECURITY: "privileged"}}});
    fixture.change(&Cell, TableId::Namespaces, "", NS, &labels);
    let written = settle(&mut fixture);
    assert!(
        written.iter().all(|one| !one.contains("namespaces")),
        "{written:?}"
    );
}

#[test]
fn what_starts_a_pod_is_no_mere_progress() {
    let mut fixture = with(&json!({}));
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    let finalizer = decided(&fixture);
    assert!(!decide::is_progress(&snapshot, &finalizer), "{finalizer:?}");
    fixture = running();
    let down = json!({"status": {"conditions": [condition("Ready", "False", "Down")]}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &down);
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    let report = decided(&fixture);
    assert_eq!(
        words(&report.effects),
        ["cell: patch instances/status web-0: instance_report"]
    );
    assert!(!decide::is_progress(&snapshot, &report), "it serves no more");
}

#[test]
fn the_labels_of_a_pod_that_goes_are_left_alone() {
    let mut fixture = running();
    let going = json!({"metadata": {"deletionTimestamp": "2026-05-04T10:00:00Z", "finalizers": ["x.example.com/y"],
        "labels": {keys::INSTANCE_INDEX: "7"}}});
    fixture.change(&Cell, TableId::Pods, NS, "web-0", &going);
    let written = settle(&mut fixture);
    assert!(
        written.iter().all(|one| !one.contains("provider_labels")),
        "{written:?}"
    );
}

#[test]
fn disks_that_no_pod_can_have_are_told_of_when_it_is_made() {
    let told = |volume: Value| {
        let mut fixture = with(&json!({"spec": {"volumes": [volume]}}));
        let finalizer = decided(&fixture);
        fixture.perform(&finalizer.effects);
        loop {
            let plan = decided(&fixture);
            let made = plan.effects.iter().any(|effect| effect.reason.label() == "pod");
            if made {
                return plan.notes.len();
            }
            assert!(!plan.is_idle(), "a Pod is made");
            fixture.perform(&plan.effects);
        }
    };
    assert_eq!(told(json!({"name": "data", "disk": {"template": {}}})), 1);
    assert_eq!(
        told(json!({"name": "settings", "configMap": {"name": "settings"}})),
        0
    );
}
