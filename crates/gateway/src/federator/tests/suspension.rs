//! A suspended project: the copy is marked whatever its deployment looks like, nothing is written to the project, and
//! deletions go on.

use super::{super::pauses, *};
use fedgate_engine::{
    error::{Category, Failure},
    key::Plane,
};

fn leaving() -> Value {
    let mut leaving = deployment();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-05-04T09:00:00Z");
    leaving
}

fn marked() -> Value {
    let mut copy = hub_copy();
    copy["metadata"]["annotations"][keys::SUSPENDED] = json!("true");
    copy
}

/// The snapshot while the project is suspended, as the index gives it.
fn suspended(deployment: &Value, hub_copy: Option<&Value>) -> Snapshot {
    let mut s = snapshot(deployment, hub_copy);
    s.suspended = true;
    s.source.as_mut().unwrap().digest.suspend(&KINDS[KindId::FIRST]);
    s
}

fn decided(s: &Snapshot) -> Action {
    decide(s, &mut Memory::default(), &SETTINGS, now())
}

fn assert_mark(effect: &Effect, mark: &Value) {
    assert_eq!(effect.reason.label(), "suspend_copy");
    assert_eq!(
        (effect.target.plane.kind(), effect.endpoint),
        ("hub", Endpoint::Main)
    );
    let expected = json!({"metadata": {"uid": "u-copy", "annotations": {keys::SUSPENDED: mark}}});
    assert_eq!(*patch(effect), expected);
    assert!(matches!(effect.write, Write::Merge { .. }));
}

#[tokio::test]
async fn a_copy_is_marked_by_a_patch_of_its_own_whatever_its_deployment_looks_like() {
    let well = deployment();
    let mut nowhere = deployment();
    nowhere["spec"]["cityCode"] = json!("a b");
    for deployment in [&well, &nowhere] {
        assert_mark(
            &one(decided(&suspended(deployment, Some(&hub_copy())))),
            &json!("true"),
        );
    }
    let mut unfurnished = suspended(&well, Some(&hub_copy()));
    unfurnished.companions.are_there = false;
    assert_mark(&one(decided(&unfurnished)), &json!("true"));
    let mut too_large = suspended(&well, Some(&hub_copy()));
    too_large.largest_spec = 1;
    assert_mark(&one(decided(&too_large)), &json!("true"));
    // A payload that the hub has refused holds nothing back.
    let s = suspended(&well, Some(&hub_copy()));
    let mut memory = Memory::default();
    memory.refuse(s.source.as_ref().unwrap(), true, "no", now());
    assert_mark(&one(decide(&s, &mut memory, &SETTINGS, now())), &json!("true"));
}

#[tokio::test]
async fn the_mark_waits_for_its_turn_at_the_hub_and_is_no_write_on_anothers_copy() {
    let s = suspended(&deployment(), Some(&hub_copy()));
    let asks = decision(&s, &Memory::default(), &SETTINGS, Permit::Unasked, now());
    assert!(matches!(asks.action, Action::Permit(_)), "{:?}", asks.action);
    let mut anothers = hub_copy();
    anothers["metadata"]["annotations"][keys::SOURCE_UID] = json!("u-other");
    let effect = one(decided(&suspended(&deployment(), Some(&anothers))));
    assert_eq!(effect.reason.label(), "replace_copy");
    let mut claimed = suspended(&deployment(), Some(&hub_copy()));
    claimed.hub_state = HubNamespaceState::Foreign;
    idle(decided(&claimed));
}

#[tokio::test]
async fn nothing_is_written_to_a_suspended_project_and_the_copy_stays_as_it_is() {
    let mut reported = marked();
    reported["status"] = json!({"replicas": 1, "suspended": true});
    idle(decided(&suspended(&deployment(), Some(&reported))));
    let mut unknown = deployment();
    unknown["metadata"]["finalizers"] = json!(["other/one"]);
    idle(decided(&suspended(&unknown, None)));
    // Its city has no cell, of which the tenant would be told.
    let mut nowhere = suspended(&deployment(), None);
    (nowhere.readiness.is_ready, nowhere.readiness.has_no_cell) = (false, true);
    idle(decided(&nowhere));
}

#[tokio::test]
async fn hub_work_goes_on_for_what_was_announced_before() {
    let s = suspended(&deployment(), None);
    let effect = one(decided(&s));
    assert_eq!(effect.reason.label(), "create_copy");
    assert_eq!(patch(&effect)["metadata"]["annotations"][keys::SUSPENDED], "true");
    let mut edited = deployment();
    edited["metadata"]["generation"] = json!(4);
    edited["spec"]["scaleSettings"]["minReplicas"] = json!(3);
    // An annotation that the project lacks is not written, and holds nothing up.
    let mut s = suspended(&edited, Some(&marked()));
    s.companions.references.as_mut().unwrap().error =
        Some((fedgate_api::Reason::SourceNotFound, "m".to_owned()));
    let effect = one(decided(&s));
    assert_eq!(effect.reason.label(), "update_copy");
    assert_eq!(patch(&effect)["metadata"]["annotations"][keys::SUSPENDED], "true");
}

#[tokio::test]
async fn deletions_go_on() {
    let effect = one(decided(&suspended(&leaving(), Some(&hub_copy()))));
    assert_eq!(effect.reason.label(), "delete_copy");
    let mut s = suspended(&leaving(), None);
    let mut memory = Memory {
        is_binding_settled: true,
        ..Memory::default()
    };
    let effect = one(decide(&s, &mut memory, &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "let_go");
    // The condition about the wait is parked, and the wait ends in time.
    s.binding = Some(binding());
    let settings = Settings {
        release_after: Some(Duration::from_hours(2)),
        ..testing::settings()
    };
    let (effects, next) = plan(decide(&s, &mut memory, &settings, now()));
    assert_eq!(
        (effects, next),
        (Vec::new(), Requeue::After(Duration::from_hours(1)))
    );
}

#[tokio::test]
async fn a_project_that_is_resumed_takes_the_mark_off_and_returns_the_status_once() {
    let effect = one(decided(&snapshot(&deployment(), Some(&marked()))));
    assert_eq!(effect.reason.label(), "update_copy");
    assert_eq!(
        patch(&effect)["metadata"]["annotations"].get(keys::SUSPENDED),
        Some(&Value::Null)
    );
    let mut nowhere = deployment();
    nowhere["spec"]["cityCode"] = json!("a b");
    assert_mark(&one(decided(&snapshot(&nowhere, Some(&marked())))), &Value::Null);
    let mut reported = hub_copy();
    reported["status"] = json!({"replicas": 1});
    let effect = one(decided(&snapshot(&deployment(), Some(&reported))));
    assert_eq!(effect.reason.label(), "return_status");
    // A deployment that its tenant has suspended stays so.
    let mut own = deployment();
    own["metadata"]["annotations"][keys::SUSPENDED] = json!("true");
    let mut c = marked();
    c["status"] = json!({"replicas": 1});
    assert_eq!(
        one(decided(&snapshot(&own, Some(&c)))).reason.label(),
        "return_status"
    );
}

/// Reason, action and whether it is a warning, of the Events of a plan.
fn events(action: Action) -> Vec<(String, String, bool)> {
    let (Action::Apply(plan) | Action::Confirm(plan)) = action else {
        panic!("{action:?}")
    };
    let notes = plan.notes.into_iter();
    notes
        .map(|note| (note.reason, note.action, note.warning))
        .collect()
}

fn by_tenant() -> Value {
    let mut d = deployment();
    d["metadata"]["annotations"][keys::SUSPENDED] = json!("true");
    d
}

#[tokio::test]
async fn a_deployment_says_that_it_is_suspended_and_that_it_goes_on() {
    let said = |reason: &str, action: &str| vec![(reason.to_owned(), action.to_owned(), false)];
    let paused = said("ProjectPaused", "Suspending");
    assert_eq!(
        events(decided(&snapshot(&by_tenant(), Some(&hub_copy())))),
        paused
    );
    let resumed = said("ProjectResumed", "Resuming");
    assert_eq!(
        events(decided(&snapshot(&deployment(), Some(&marked())))),
        resumed
    );
    // The mark is written by itself, since the deployment cannot be carried.
    let mut invalid = deployment();
    invalid["spec"]["cityCode"] = json!("a b");
    let s = snapshot(&invalid, Some(&marked()));
    assert_eq!(events(decided(&s)), resumed);
    let mut moved = by_tenant();
    moved["spec"]["cityCode"] = json!("LHR");
    let reasons: Vec<String> = events(decided(&snapshot(&moved, Some(&hub_copy()))))
        .into_iter()
        .map(|(reason, ..)| reason)
        .collect();
    assert_eq!(reasons, ["CityMoved", "ProjectPaused"]);
}

#[tokio::test]
async fn no_event_is_meant_for_a_suspended_project_or_for_what_was_never_paused() {
    let none: Vec<(String, String, bool)> = Vec::new();
    assert_eq!(
        events(decided(&suspended(&deployment(), Some(&hub_copy())))),
        none
    );
    assert_eq!(events(decided(&snapshot(&by_tenant(), None))), none);
    let mut edited = deployment();
    edited["metadata"]["generation"] = json!(4);
    edited["spec"]["scaleSettings"]["minReplicas"] = json!(3);
    assert_eq!(events(decided(&snapshot(&edited, Some(&hub_copy())))), none);
}

fn failure(plane: &Plane, category: Category) -> Failure {
    Failure {
        category,
        plane: plane.clone(),
        verb: "apply",
        object: "workloaddeployments ns-a/web".to_owned(),
        message: "the words of a server".to_owned(),
        retry_after: Duration::ZERO,
    }
}

#[tokio::test]
async fn a_pause_that_fails_is_told_in_words_of_our_own() {
    let s = snapshot(&by_tenant(), Some(&hub_copy()));
    let told = pauses::failed(&s, &failure(&Plane::Hub, Category::Server)).unwrap();
    assert_eq!(
        (&*told.reason, &*told.action, told.warning),
        ("PauseFailed", "Suspending", true)
    );
    assert!(!told.message.contains("words"), "{}", told.message);
    for category in [Category::NotLeader, Category::Conflict] {
        assert_eq!(pauses::failed(&s, &failure(&Plane::Hub, category)), None);
    }
    assert_eq!(pauses::failed(&s, &failure(&Plane::Cell, Category::Server)), None);
    let resumes = snapshot(&deployment(), Some(&marked()));
    assert_eq!(
        pauses::failed(&resumes, &failure(&Plane::Hub, Category::Server)),
        None
    );
    let whole = suspended(&deployment(), Some(&hub_copy()));
    assert_eq!(
        pauses::failed(&whole, &failure(&Plane::Hub, Category::Server)),
        None
    );
}

#[tokio::test]
async fn a_failed_pause_is_told_anew_after_the_copy_was_marked() {
    let mut memory = Memory {
        pause_failed: true,
        ..Memory::default()
    };
    decide(
        &snapshot(&by_tenant(), Some(&hub_copy())),
        &mut memory,
        &SETTINGS,
        now(),
    );
    assert!(memory.pause_failed);
    decide(
        &snapshot(&by_tenant(), Some(&marked())),
        &mut memory,
        &SETTINGS,
        now(),
    );
    assert!(!memory.pause_failed);
}
