//! Deletion of a deployment.

use super::*;

fn leaving() -> Value {
    let mut d = deployment();
    d["metadata"]["deletionTimestamp"] = json!("2026-05-04T09:59:59Z");
    d
}

#[tokio::test]
async fn deletion_goes_copy_binding_companions_policy_finalizer() {
    let mut memory = Memory::default();
    let mut s = snapshot(&leaving(), Some(&hub_copy()));
    s.binding = Some(binding());
    let effect = one(decide(&s, &mut memory, &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "delete_copy");
    s.copy = None;
    idle(decide(&s, &mut memory, &SETTINGS, now()));
    s.binding = None;
    s.companions.hold = true;
    idle(decide(&s, &mut memory, &SETTINGS, now()));
    s.companions.hold = false;
    s.readiness.is_policy_leaving = true;
    idle(decide(&s, &mut memory, &SETTINGS, now()));
    s.readiness.is_policy_leaving = false;
    let effect = one(decide(&s, &mut memory, &SETTINGS, now()));
    assert_eq!(
        patch(&effect),
        &json!({"metadata": {"uid": "u-source", "resourceVersion": "70", "finalizers": ["other/one"]}})
    );
}

#[tokio::test]
async fn without_a_binding_that_was_seen_the_hub_says_that_nothing_is_left() {
    let mut memory = Memory::default();
    let mut s = snapshot(&leaving(), Some(&hub_copy()));
    assert_eq!(
        one(decide(&s, &mut memory, &SETTINGS, now())).reason.label(),
        "delete_copy"
    );
    s.copy = None;
    assert_eq!(decide(&s, &mut memory, &SETTINGS, now()), Action::ConfirmGone);
    memory.is_binding_settled = true;
    let dfw = CityRoute::to_city(fedgate_api::names::CityCode::parse("DFW").unwrap());
    s.arriving = Some(dfw);
    assert_eq!(
        decide(&s, &mut memory, &SETTINGS, now()),
        Action::ConfirmGone,
        "a write of the copy had no answer"
    );
    s.arriving = None;
    assert_eq!(
        one(decide(&s, &mut memory, &SETTINGS, now())).reason.label(),
        "let_go"
    );
}

#[tokio::test]
async fn a_cell_that_does_not_answer_is_named() {
    let mut s = snapshot(&leaving(), None);
    s.binding = Some(binding());
    let (mut memory, start) = (Memory::default(), now());
    idle(decide(&s, &mut memory, &SETTINGS, start));
    let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
    let condition = &patch(&effect)["status"]["conditions"][0];
    assert_eq!(condition["reason"], "WaitingForCells");
    assert!(condition["message"].as_str().unwrap().contains("dfw-1"));
}

/// Chaos on real Karmada, seed 23: a finalizer that Karmada does not take away kept a deployment whose cells had confirmed.
#[tokio::test]
async fn a_binding_that_karmada_alone_holds_is_not_said_of_the_cells() {
    let wait = |finalizers: &[&str], deleted: bool| {
        let mut s = snapshot(&leaving(), None);
        let mut value = binding_value();
        value["metadata"]["finalizers"] = json!(finalizers);
        if deleted {
            value["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
        }
        s.binding = Some(read_binding(&value));
        let (mut memory, start) = (Memory::default(), now());
        let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
        patch(&effect)["status"]["conditions"][0]["message"].to_string()
    };
    let distributor = "karmada.io/binding-dependencies-distributor";
    assert!(wait(&[distributor], true).contains("Karmada's dependencies distributor"));
    let cells = "dfw-1 has not confirmed";
    assert!(wait(&["karmada.io/binding-controller", distributor], true).contains(cells));
    assert!(wait(&[distributor], false).contains(cells));
}

#[tokio::test]
async fn a_leaving_deployment_without_our_finalizer_is_left_alone() {
    let mut d = leaving();
    d["metadata"]["finalizers"] = json!(["other/one"]);
    idle(decide(
        &snapshot(&d, Some(&hub_copy())),
        &mut Memory::default(),
        &SETTINGS,
        now(),
    ));
}

#[tokio::test]
async fn a_copy_that_the_hub_does_not_let_go_is_asked_for_once_in_five_minutes() {
    let s = snapshot(&leaving(), Some(&hub_copy()));
    let (mut memory, start) = (Memory::default(), now());
    memory.refuse(&source(&leaving()), false, "it is protected", start);
    let effect = one(decide(&s, &mut memory, &SETTINGS, start));
    assert_eq!(
        patch(&effect)["status"]["conditions"][0]["message"],
        "it is protected"
    );
    let due = later(start, fedgate_engine::reconcile::throttle::RETRY_AFTER);
    assert_eq!(
        one(decide(&s, &mut memory, &SETTINGS, due)).reason.label(),
        "delete_copy"
    );
}

#[tokio::test]
async fn released_it_waits_for_nothing_that_a_dead_cell_holds() {
    let settings = Settings {
        release_after: Some(Duration::from_secs(60)),
        ..testing::settings()
    };
    let mut c = hub_copy();
    c["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    let mut s = snapshot(&leaving(), Some(&c));
    s.binding = Some(binding());
    (s.companions.hold, s.readiness.is_policy_leaving) = (true, true);
    let (mut memory, start) = (Memory::default(), now());
    idle(decide(&s, &mut memory, &settings, start));
    let effect = one(decide(
        &s,
        &mut memory,
        &settings,
        later(start, Duration::from_secs(60)),
    ));
    assert_eq!(effect.reason.label(), "let_go");
}

#[tokio::test]
async fn a_restart_neither_says_it_anew_nor_begins_to_wait_anew() {
    let mut s = snapshot(&leaving(), None);
    s.binding = Some(binding());
    let start = later(now(), Duration::from_secs(60));
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, start));
    let mut told = leaving();
    told["status"] = patch(&effect)["status"].clone();
    let message = &told["status"]["conditions"][0]["message"];
    assert_eq!(
        message,
        "being deleted since 2026-05-04T09:59:59Z: dfw-1 has not confirmed"
    );
    s.source = Some(source(&told));
    let hour = later(start, Duration::from_secs(3_600));
    idle(decide(&s, &mut Memory::default(), &SETTINGS, hour));
    let settings = Settings {
        release_after: Some(Duration::from_secs(600)),
        ..testing::settings()
    };
    let mut copied = snapshot(&told, Some(&hub_copy()));
    copied.binding = s.binding.clone();
    let first = one(decide(&copied, &mut Memory::default(), &settings, hour));
    assert_eq!(
        first.reason.label(),
        "delete_copy",
        "however long it took to get there"
    );
    let effect = one(decide(&s, &mut Memory::default(), &settings, hour));
    assert_eq!(effect.reason.label(), "let_go");
}
