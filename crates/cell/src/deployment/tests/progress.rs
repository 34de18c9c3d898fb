//! Tests: the condition `Progressing`, and the times that a rollout waits for (contract: serving.md §3).

use super::*;
use jiff::ToSpan;
use std::time::Duration;

/// A deployment of one Instance with a strategy.
fn deployment_with(rollout: &Value) -> Value {
    let mut deployment = deployment("web", 1);
    deployment["spec"]["scaleSettings"]["rollout"] = rollout.clone();
    deployment
}

/// Decides for a rollout that has waited this long with so many steps left.
fn stalled(fixture: &Fixture, steps: usize, seconds: u64) -> decide::DeploymentDecision {
    let mut snapshot = observe::observe(&fixture.context, &key("web")).unwrap();
    let time = Duration::from_secs(seconds);
    snapshot.stalled = Some(observe::Stalled { steps, time });
    decide::decide(&snapshot, now())
}

/// Writes what is decided for such a rollout.
fn fail(fixture: &mut Fixture, steps: usize) {
    let decided = stalled(fixture, steps, 60);
    fixture.perform(&decided.writes);
    fixture.perform(decided.status.as_slice());
}

/// Marks an Instance as starting.
fn starting(fixture: &mut Fixture, name: &str) {
    let patch = json!({"status": {"conditions": [condition("Ready", "False", "Starting")]}});
    fixture.change(&Cell, TableId::Instances, NS, name, &patch);
}

/// Changes the spec of the deployment, as the API server counts generations.
fn edit(fixture: &mut Fixture, spec: &Value) {
    let generation = &fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap()["metadata"]["generation"];
    let generation = generation.as_i64().unwrap() + 1;
    let patch = json!({"metadata": {"generation": generation}, "spec": spec});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &patch);
}

/// Time until the progress deadline.
fn due(fixture: &Fixture) -> Option<Duration> {
    let snapshot = observe::observe(&fixture.context, &key("web")).unwrap();
    decide::decide(&snapshot, now()).due
}

/// A deployment with a strategy whose first rollout is complete.
fn complete(rollout: &Value) -> Fixture {
    let mut fixture = with(settings(), deployment_with(rollout));
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-0");
    settle(&mut fixture, "web");
    fixture
}

/// Changes the image of the deployment.
fn roll(fixture: &mut Fixture) {
    let mut template =
        fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap()["spec"]["template"].clone();
    template["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = json!("shop/web:2");
    edit(fixture, &json!({"template": template}));
}

#[test]
fn a_rollout_says_how_far_it_is_and_fails_after_its_deadline() {
    let mut fixture = complete(&json!({"progressDeadlineSeconds": 60}));
    assert_eq!(
        status(&fixture, "web", "Progressing"),
        "True RolloutComplete: 1/1 instances are on the latest template"
    );
    assert_eq!(due(&fixture), None);

    roll(&mut fixture);
    assert_eq!(
        settle(&mut fixture, "web")[0],
        "cell: create instances web-1: instance_missing"
    );
    starting(&mut fixture, "web-1");
    settle(&mut fixture, "web");
    assert_eq!(
        status(&fixture, "web", "Progressing"),
        "True RolloutProgressing: 0/1 instances are on the latest template; waiting for web-1: Starting"
    );
    assert_eq!(due(&fixture), Some(Duration::from_secs(60)));
    assert_eq!(stalled(&fixture, 2, 20).due, Some(Duration::from_secs(40)));
    assert_eq!(stalled(&fixture, 2, 20).stalled, Some(2));
    // There were more steps before: that is progress.
    assert_eq!(stalled(&fixture, 3, 60).due, Some(Duration::from_secs(60)));

    fail(&mut fixture, 2);
    assert_eq!(
        status(&fixture, "web", "Progressing"),
        "False ProgressDeadlineExceeded: no progress for 60 s: 0/1 instances are on the latest template; waiting for \
         web-1: Starting: Starting it is"
    );
    assert_eq!(
        status(&fixture, "web", "Available"),
        "True StableInstanceFound: 1/1 instances are ready",
        "the Instance of the former template serves"
    );
    assert_eq!(
        settle(&mut fixture, "web"),
        [""; 0],
        "a restart of the program changes nothing"
    );
    assert_eq!(due(&fixture), None);
    edit(
        &mut fixture,
        &json!({"scaleSettings": {"rollout": {"progressDeadlineSeconds": 90}}}),
    );
    assert_eq!(
        due(&fixture),
        Some(Duration::from_secs(90)),
        "another spec gets its time"
    );
}

#[test]
fn a_paused_rollout_says_so_and_replaces_nothing() {
    let mut fixture = complete(&json!({"paused": true}));
    roll(&mut fixture);
    assert_eq!(
        settle(&mut fixture, "web"),
        ["cell: patch workloaddeployments/status web: deployment_status"]
    );
    assert_eq!(
        status(&fixture, "web", "Progressing"),
        "Unknown RolloutPaused: the rollout is paused: no Instance is replaced"
    );
    edit(
        &mut fixture,
        &json!({"scaleSettings": {"rollout": {"paused": null}}}),
    );
    assert_eq!(
        settle(&mut fixture, "web")[0],
        "cell: create instances web-1: instance_missing"
    );
}

#[test]
fn the_deadline_does_not_run_while_a_rollout_waits_for_something_else_than_instances() {
    let mut fixture = complete(&json!({"progressDeadlineSeconds": 60}));
    roll(&mut fixture);
    let mut snapshot = observe::observe(&fixture.context, &key("web")).unwrap();
    snapshot.quota_unavailable = true;
    let decision = decide::decide(&snapshot, now());
    assert_eq!(
        (decision.stalled, decision.due, decision.held),
        (None, None, true)
    );
    let status = body(&decision.status.unwrap())["status"]["conditions"].to_string();
    assert!(status.contains("RolloutProgressing"), "{status}");

    // A creation that the API server refuses is no progress.
    snapshot.quota_unavailable = false;
    assert_eq!(decide::decide(&snapshot, now()).stalled, None);
    snapshot.refused = Some("the cell's API server refuses web-1: no".to_owned());
    assert_eq!(decide::decide(&snapshot, now()).stalled, Some(2));
}

#[test]
fn a_blocked_deployment_has_completed_nothing() {
    let mut blocked = deployment_with(&json!({"onFailure": "Undo"}));
    blocked["spec"]["scaleSettings"]["instanceManagementPolicy"] = json!("Foo");
    let mut fixture = with(settings(), blocked);
    assert_eq!(
        settle(&mut fixture, "web"),
        ["cell: patch workloaddeployments/status web: deployment_status"]
    );
    assert!(status(&fixture, "web", "Progressing").starts_with("Unknown UnsupportedManagementPolicy: "));
}

#[test]
fn a_rollout_that_has_completed_stays_complete_if_an_instance_crashes_later() {
    let mut fixture = complete(&json!({"progressDeadlineSeconds": 60}));
    let crashing = condition("Ready", "False", "InstanceCrashing");
    let patch = json!({"status": {"conditions": [crashing]}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &patch);
    settle(&mut fixture, "web");
    assert!(status(&fixture, "web", "Progressing").starts_with("True RolloutComplete: "));
    assert_eq!(due(&fixture), None);
}

#[test]
fn an_instance_is_available_after_min_ready_seconds() {
    let mut fixture = with(settings(), deployment_with(&json!({"minReadySeconds": 30})));
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-0");
    let mut conditions =
        fixture.get(&Cell, TableId::Instances, NS, "web-0").unwrap()["status"]["conditions"].clone();
    conditions[0]["lastTransitionTime"] = json!((now() - 10.seconds()).to_string());
    let patch = json!({"status": {"conditions": conditions}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &patch);
    let mut snapshot = observe::observe(&fixture.context, &key("web")).unwrap();
    assert_eq!(snapshot.mark_available(now()), Some(Duration::from_secs(20)));
    assert!(!snapshot.instances[0].control.available);
    let status = body(&decide::decide(&snapshot, now()).status.unwrap());
    let message = status["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "Progressing")
        .unwrap()["message"]
        .clone();
    assert_eq!(
        message,
        "1/1 instances are on the latest template; waiting for web-0: ready for less than \
         minReadySeconds"
    );
    let mut later = observe::observe(&fixture.context, &key("web")).unwrap();
    assert_eq!(later.mark_available(now() + 20.seconds()), None);
    assert!(later.instances[0].control.available);
}

#[test]
fn a_surge_without_quota_is_said_and_counts_for_no_desired_replica() {
    let mut fixture = complete(&json!({}));
    roll(&mut fixture);
    settle(&mut fixture, "web");
    let denied = condition("QuotaGranted", "False", "QuotaExceeded");
    let patch = json!({"status": {"conditions": [denied]}});
    fixture.change(&Cell, TableId::Instances, NS, "web-1", &patch);
    let effects = effects(&fixture, "web");
    assert_eq!(words(&effects)[0], "cell: delete instances web-0: instance_roll");
    fixture.perform(&effects[1..]);
    assert_eq!(
        status(&fixture, "web", "Progressing"),
        "True SurgeWithoutQuota: quota is not granted for the surge; each instance is deleted before its replacement is created; \
         0/1 instances are on the latest template"
    );
    assert_eq!(
        status(&fixture, "web", "ReplicasReady"),
        "True ReplicasAvailable: 1/1 replicas available"
    );
}

/// A deployment whose second template has failed and is undone; its first template.
fn undone() -> (Fixture, Value) {
    let undo = json!({"progressDeadlineSeconds": 60, "onFailure": "Undo"});
    let mut fixture = with(settings(), deployment_with(&undo));
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-0");
    let written = settle(&mut fixture, "web");
    assert_eq!(
        written,
        [
            "cell: patch workloaddeployments/status web: deployment_status",
            "cell: patch workloaddeployments web: rollout_recorded"
        ]
    );
    let first = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap()["spec"]["template"].clone();
    let recorded = annotation(&fixture, keys::COMPLETE_TEMPLATE);
    assert_eq!(
        serde_json::from_str::<Value>(recorded.as_str().unwrap()).unwrap(),
        first
    );
    roll(&mut fixture);
    settle(&mut fixture, "web");
    fail(&mut fixture, 2);
    assert!(status(&fixture, "web", "Progressing").starts_with("False ProgressDeadlineExceeded: "));
    assert_eq!(
        settle(&mut fixture, "web"),
        [
            "cell: patch workloaddeployments web: rollout_undone",
            "cell: delete instances web-1: instance_surplus",
            "cell: patch workloaddeployments/status web: deployment_status",
        ]
    );
    fixture.lost(&Cell, TableId::Instances, NS, "web-1");
    settle(&mut fixture, "web");
    (fixture, first)
}

fn annotation(fixture: &Fixture, key: &str) -> Value {
    fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap()["metadata"]["annotations"][key].clone()
}

#[test]
fn a_rollout_that_fails_is_undone_and_its_template_is_not_tried_again() {
    let (mut fixture, first) = undone();
    assert_eq!(
        status(&fixture, "web", "Progressing"),
        "False RolloutUndone: no progress for 60 s: 0/1 instances are on the latest template; waiting for web-1: Pending; \
         undone: the last template whose rollout completed runs; change the template to try \
         another rollout"
    );
    let counts = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap()["status"].clone();
    assert_eq!(
        (&counts["readyReplicas"], &counts["updatedReplicas"]),
        (&json!(1), &json!(0))
    );
    // The replacement of a deleted Instance has the last template whose rollout completed.
    fixture.lost(&Cell, TableId::Instances, NS, "web-0");
    let made = body(&effects(&fixture, "web")[0]);
    assert_eq!(made["spec"]["runtime"], first["spec"]["runtime"]);
}

#[test]
fn another_template_is_tried_and_its_completion_ends_the_undo() {
    let (mut fixture, _) = undone();
    edit(
        &mut fixture,
        &json!({"template": {"metadata": {"labels": {"third": "yes"}}}}),
    );
    let made = body(&effects(&fixture, "web")[0]);
    assert_eq!(made["metadata"]["labels"]["third"], "yes");
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-1");
    settle(&mut fixture, "web");
    fixture.lost(&Cell, TableId::Instances, NS, "web-0");
    settle(&mut fixture, "web");
    ready(&mut fixture, "web-0");
    settle(&mut fixture, "web");
    fixture.lost(&Cell, TableId::Instances, NS, "web-1");
    settle(&mut fixture, "web");
    assert_eq!(annotation(&fixture, keys::UNDONE), Value::Null);
    assert!(
        annotation(&fixture, keys::COMPLETE_TEMPLATE)
            .as_str()
            .unwrap()
            .contains("third")
    );
}

#[test]
fn without_undo_nothing_is_recorded_for_a_later_one() {
    let (mut fixture, _) = undone();
    edit(
        &mut fixture,
        &json!({"scaleSettings": {"rollout": {"onFailure": "Hold"}}}),
    );
    let written = settle(&mut fixture, "web");
    assert!(
        written.contains(&"cell: patch workloaddeployments web: rollout_recorded".to_owned()),
        "{written:?}"
    );
    assert_eq!(annotation(&fixture, keys::UNDONE), Value::Null);
    assert_eq!(annotation(&fixture, keys::COMPLETE_TEMPLATE), Value::Null);
}

#[test]
fn a_first_rollout_that_fails_has_nothing_to_return_to() {
    let undo = json!({"progressDeadlineSeconds": 60, "onFailure": "Undo"});
    let mut fixture = with(settings(), deployment_with(&undo));
    settle(&mut fixture, "web");
    fail(&mut fixture, 1);
    assert_eq!(settle(&mut fixture, "web"), [""; 0]);
    let said = status(&fixture, "web", "Progressing");
    assert!(said.starts_with("False ProgressDeadlineExceeded: "), "{said}");
    assert!(
        said.ends_with("no template is known whose rollout completed, so that nothing is undone"),
        "{said}"
    );
}

#[test]
fn a_deployment_without_a_strategy_has_no_such_condition() {
    let mut fixture = with(settings(), deployment("web", 1));
    settle(&mut fixture, "web");
    let web = fixture.get(&Cell, TableId::Deployments, NS, "web").unwrap();
    let conditions = web["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions.iter().all(|c| c["type"] != "Progressing"),
        "{conditions:?}"
    );
}
