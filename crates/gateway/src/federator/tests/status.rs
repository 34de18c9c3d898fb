//! The status that returns to the project, and the gateway's own conditions.

use super::*;
use fedgate_engine::reconcile::throttle::RETRY_AFTER;

#[tokio::test]
async fn status_returns_with_the_projects_generation() {
    let mut c = hub_copy();
    c["status"] = json!({"replicas": 1, "desiredReplicas": 1, "observedGeneration": 3, "conditions": [
        {"type": "Available", "status": "True", "reason": "StableInstanceFound", "message": "1/1",
            "observedGeneration": 3, "lastTransitionTime": "2026-05-04T09:59:00Z"}]});
    let mut s = snapshot(&deployment(), Some(&c));
    s.binding = Some(binding());
    let (mut memory, start) = (Memory::default(), now());
    let effect = one(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!(
        (effect.reason.label(), effect.endpoint),
        ("return_status", Endpoint::Status)
    );
    let status = &patch(&effect)["status"];
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"]),
        (&json!(1), &json!(0))
    );
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].clone())
        .collect();
    assert_eq!(types, ["Available", "Federated"]);
}

/// The cell's report with this text in `Available`.
fn report(status: &str, message: &str) -> Value {
    let mut c = hub_copy();
    c["status"] = json!({"replicas": 1, "observedGeneration": 3, "conditions": [
        {"type": "Available", "status": status, "reason": "InstancesProvisioning", "message": message,
            "observedGeneration": 3, "lastTransitionTime": "2026-05-04T09:59:00Z"}]});
    c
}

#[tokio::test]
async fn progress_waits_for_a_token_and_available_does_not_wait_behind_it() {
    let bound = |c: &Value, source: &Value| {
        let mut s = snapshot(source, Some(c));
        s.binding = Some(binding());
        s
    };
    let mut source = deployment();
    source["status"] = report("False", "0/1")["status"].clone();
    let (mut memory, start) = (Memory::default(), now());
    let step = report("False", "pulling");
    for _ in 0..3 {
        let effect = one(decide(&bound(&step, &source), &mut memory, &SETTINGS, start));
        assert_eq!(effect.reason.label(), "return_status");
    }
    let soon = later(start, Duration::from_millis(100));
    let (effects, next) = plan(decide(&bound(&step, &source), &mut memory, &SETTINGS, soon));
    assert_eq!(
        (effects, next),
        (vec![], Requeue::After(Duration::from_millis(150)))
    );
    let available = bound(&report("True", "1/1"), &source);
    let effect = one(decide(&available, &mut memory, &SETTINGS, soon));
    assert_eq!(effect.reason.label(), "return_status");
    let (effects, _) = plan(decide(&available, &mut memory, &SETTINGS, soon));
    assert_eq!(effects, []);
}

#[tokio::test]
async fn an_invalid_city_says_so_and_asks_the_hub_nothing() {
    for bad in ["a b", &"x".repeat(64)] {
        let mut d = deployment();
        d["spec"]["cityCode"] = json!(bad);
        let effect = one(decide(
            &snapshot(&d, Some(&hub_copy())),
            &mut Memory::default(),
            &SETTINGS,
            now(),
        ));
        assert_eq!(effect.endpoint, Endpoint::Status);
        let condition = &patch(&effect)["status"]["conditions"][0];
        assert_eq!(
            (&condition["reason"], &condition["status"]),
            (&json!("InvalidCityCode"), &json!("False"))
        );
    }
}

#[tokio::test]
async fn no_cell_for_the_city_is_said_at_once_and_propagating_after_patience() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    let (mut memory, start) = (Memory::default(), now());
    let (effects, next) = plan(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!((effects, next), (vec![], Requeue::After(GRACE_PERIOD)));
    let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
    assert_eq!(patch(&effect)["status"]["conditions"][0]["reason"], "Propagating");
    let mut b = binding();
    b.digest.no_cluster = true;
    s.binding = Some(b);
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, start));
    assert_eq!(
        patch(&effect)["status"]["conditions"][0]["reason"],
        "NoCellForCity"
    );
}

#[tokio::test]
async fn a_condition_on_references_that_are_gone_goes_with_one_write_though_nothing_reports() {
    let mut d = deployment();
    d["status"] = json!({"replicas": 2, "conditions": [
        {"type": "ReferencedDataReady", "status": "False", "reason": "SourceNotFound", "message": "m",
            "observedGeneration": 2, "lastTransitionTime": "2026-05-04T09:00:00Z"},
        {"type": "Federated", "status": "False", "reason": "Propagating", "message": "m",
            "observedGeneration": 2, "lastTransitionTime": "2026-05-04T09:00:00Z"}]});
    let s = snapshot(&d, Some(&hub_copy()));
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "return_status");
    let status = &patch(&effect)["status"];
    assert_eq!(
        status["replicas"], 2,
        "nothing reports: the project keeps what it has"
    );
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["type"])
        .collect();
    assert_eq!(types, ["Federated"]);
    d["status"] = status.clone();
    let written = snapshot(&d, Some(&hub_copy()));
    idle(decide(&written, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn a_binding_of_an_earlier_copy_or_one_that_goes_delivers_nothing() {
    let told = |change: fn(&mut Row<Binding>)| {
        let mut s = snapshot(&deployment(), Some(&hub_copy()));
        let mut binding = binding();
        change(&mut binding);
        s.binding = Some(binding);
        let (mut memory, start) = (Memory::default(), now());
        drop(decide(&s, &mut memory, &SETTINGS, start));
        let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
        patch(&effect)["status"]["conditions"][0]["reason"].clone()
    };
    assert_eq!(told(|_| {}), "Delivered");
    assert_eq!(told(|b| b.digest.owner = Some("u-dead".into())), "Propagating");
    assert_eq!(told(|b| b.deleting = true), "Propagating");
}

#[tokio::test]
async fn a_companion_that_a_cell_of_the_deployment_does_not_take_is_said_with_the_next_step() {
    let told = |cell: &str| {
        let mut s = snapshot(&deployment(), Some(&hub_copy()));
        s.binding = Some(binding());
        s.companions.unapplied = Some(("Secret/db".into(), cell.into(), "it exists already".into()));
        let (mut memory, start) = (Memory::default(), now());
        drop(decide(&s, &mut memory, &SETTINGS, start));
        let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
        let condition = patch(&effect)["status"]["conditions"][0].clone();
        (condition["reason"].clone(), condition["message"].clone())
    };
    let message = "dfw-1 does not take Secret/db; if another object has this name at the cell, reference one of another \
                   name: it exists already";
    assert_eq!(told("dfw-1"), (json!("ApplyFailed"), json!(message)));
    assert_eq!(told("lhr-1").0, "Delivered", "another deployment's cell");
}

#[tokio::test]
async fn what_the_hub_refused_is_not_asked_again_and_its_status_returns_all_the_same() {
    let mut d = deployment();
    d["metadata"]["generation"] = json!(4);
    d["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    let mut c = hub_copy();
    c["status"] = json!({"replicas": 1});
    let s = snapshot(&d, Some(&c));
    let (mut memory, start) = (Memory::default(), now());
    assert_eq!(
        one(decide(&s, &mut memory, &SETTINGS, start)).reason.label(),
        "update_copy"
    );
    memory.refuse(&source(&d), true, "spec.x: too large", start);
    let effect = one(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!(effect.reason.label(), "return_status");
    let status = &patch(&effect)["status"];
    assert_eq!(status["replicas"], 1);
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["message"]),
        (&json!("HubRefused"), &json!("spec.x: too large"))
    );
    let mut told = d.clone();
    told["status"] = status.clone();
    let (effects, next) = plan(decide(&snapshot(&told, Some(&c)), &mut memory, &SETTINGS, start));
    assert_eq!((effects, next), (vec![], Requeue::After(RETRY_AFTER)));
    let due = later(start, RETRY_AFTER);
    let again = one(decide(
        &snapshot(&told, Some(&c)),
        &mut memory.clone(),
        &SETTINGS,
        due,
    ));
    assert_eq!(again.reason.label(), "update_copy");
    told["spec"]["scaleSettings"]["minReplicas"] = json!(3);
    let changed = one(decide(&snapshot(&told, Some(&c)), &mut memory, &SETTINGS, start));
    assert_eq!(changed.reason.label(), "update_copy", "a change heals it at once");
}

#[tokio::test]
async fn an_invalid_city_stops_nothing_that_its_copy_says() {
    let mut d = deployment();
    d["metadata"]["generation"] = json!(4);
    d["spec"]["cityCode"] = json!("a b");
    let mut c = hub_copy();
    c["status"] = json!({"replicas": 2, "observedGeneration": 3});
    let mut s = snapshot(&d, Some(&c));
    s.is_claim_right = false;
    let (mut memory, start) = (Memory::default(), now());
    let effect = one(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!(effect.reason.label(), "return_status");
    let status = &patch(&effect)["status"];
    assert_eq!(
        (&status["replicas"], &status["observedGeneration"]),
        (&json!(2), &json!(3))
    );
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["observedGeneration"]),
        (&json!("InvalidCityCode"), &json!(4))
    );
    d["status"] = status.clone();
    s.source = Some(source(&d));
    let rest = plan(decide(
        &s,
        &mut memory,
        &SETTINGS,
        later(start, Duration::from_secs(600)),
    ));
    assert_eq!(rest, (vec![], Requeue::AwaitChange));
}

#[tokio::test]
async fn what_the_hub_refuses_around_a_copy_is_said() {
    let told = |change: fn(&mut Snapshot)| {
        let mut d = deployment();
        d["metadata"]["finalizers"] = json!([keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER]);
        d["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] = json!("[]");
        d["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
        let mut s = snapshot(&d, None);
        (s.readiness.is_ready, s.companions.are_there) = (false, false);
        change(&mut s);
        let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        let conditions = patch(&effect)["status"]["conditions"].clone();
        let texts = conditions.as_array().unwrap().iter();
        let texts = texts.map(|c| format!("{} {} {}", c["type"], c["reason"], c["message"]).replace('"', ""));
        texts.collect::<Vec<_>>()
    };
    let place = told(|s| s.readiness.refused = Some("no more".into()));
    assert_eq!(place[1], "Federated HubRefused no more");
    let companion = told(|s| s.companions.refused = Some(("Secret/db".into(), "too large".into())));
    assert_eq!(
        companion,
        [
            "ReferencedDataReady Resolving Secret/db is not carried: too large",
            "Federated HubRefused Secret/db is not carried: too large"
        ]
    );
}

#[tokio::test]
async fn a_rollout_that_failed_or_was_undone_is_an_event_once() {
    let progressing = |status: &str, reason: &str| {
        json!({"replicas": 1, "conditions": [{"type": "Progressing", "status": status, "reason": reason,
            "message": "no progress for 600 s", "lastTransitionTime": "2026-05-04T09:00:00Z"}]})
    };
    let told = |here: Value, hub: Value| {
        let (mut d, mut c) = (deployment(), hub_copy());
        d["status"] = here;
        c["status"] = hub;
        let step = decide(&snapshot(&d, Some(&c)), &mut Memory::default(), &SETTINGS, now());
        let Action::Apply(plan) = step else {
            panic!("{step:?}")
        };
        let notes = plan.notes.into_iter();
        notes.map(|note| (note.reason, note.message)).collect::<Vec<_>>()
    };
    let goes_on = progressing("True", "RolloutProgressing");
    let failed = progressing("False", "ProgressDeadlineExceeded");
    let event = |reason: &str| vec![(reason.to_owned(), "no progress for 600 s".to_owned())];
    assert_eq!(
        told(goes_on.clone(), failed.clone()),
        event("ProgressDeadlineExceeded")
    );
    assert_eq!(
        told(failed.clone(), progressing("False", "RolloutUndone")),
        event("RolloutUndone")
    );
    let mut more = failed.clone();
    more["replicas"] = json!(2);
    assert_eq!(told(failed, more), []);
    assert_eq!(told(json!({}), goes_on), []);
}
