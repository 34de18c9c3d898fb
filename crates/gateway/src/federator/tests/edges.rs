//! Times and sizes at which a decision changes, just below and just above.

use super::*;
use crate::{federator::decide::status_digests, rate_limit::Class};

const SECOND: Duration = Duration::from_secs(1);

fn waits(action: Action) -> Requeue {
    let (effects, next) = plan(action);
    assert_eq!(effects, []);
    next
}

fn with_status(mut object: Value, status: Value) -> Value {
    object["status"] = status;
    object
}

/// A deployment that references a Secret and has all marks of the gateway.
fn with_reference() -> Value {
    let mut d = deployment();
    d["metadata"]["finalizers"] = json!([keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER]);
    d["metadata"]["annotations"][keys::EXPECTED_REFERENCED_DATA] = json!("[]");
    d["spec"]["template"]["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "db"}}]);
    d
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "False", "reason": "Former", "message": "m", "observedGeneration": 2,
        "lastTransitionTime": "2026-05-04T09:00:00Z"})
}

fn types(status: &Value) -> Vec<&str> {
    let conditions = status["conditions"].as_array().unwrap().iter();
    conditions.map(|c| c["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn references_that_are_being_read_are_said_once_that_takes_long() {
    let mut s = snapshot(&with_reference(), None);
    s.readiness.is_ready = false;
    s.companions.references.as_mut().unwrap().resolving = true;
    let (mut memory, start) = (Memory::default(), now());
    assert_eq!(
        waits(decide(&s, &mut memory, &SETTINGS, start)),
        Requeue::After(GRACE_PERIOD)
    );
    let almost = later(start, GRACE_PERIOD.checked_sub(SECOND).unwrap());
    assert_eq!(
        waits(decide(&s, &mut memory, &SETTINGS, almost)),
        Requeue::After(SECOND)
    );
    let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
    assert_eq!(patch(&effect)["status"]["conditions"][0]["reason"], "Resolving");
}

#[tokio::test]
async fn a_status_of_just_the_limit_returns() {
    let c = with_status(hub_copy(), json!({"replicas": 1}));
    let mut s = snapshot(&deployment(), Some(&c));
    s.copy.as_mut().unwrap().digest.status.size = KINDS[KindId::FIRST].status.max_bytes;
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(patch(&effect)["status"]["replicas"], 1);
    s.copy.as_mut().unwrap().digest.status.size += 1;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
}

#[tokio::test]
async fn good_news_waits_for_what_the_cell_reports() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    s.binding = Some(binding());
    let (mut memory, start) = (Memory::default(), now());
    assert_eq!(
        waits(decide(&s, &mut memory, &SETTINGS, start)),
        Requeue::After(GRACE_PERIOD)
    );
    let effect = one(decide(&s, &mut memory, &SETTINGS, later(start, GRACE_PERIOD)));
    let told = with_status(deployment(), patch(&effect)["status"].clone());
    assert_eq!(told["status"]["conditions"][0]["reason"], "Delivered");
    // Another client's condition stays; ours on removed references is removed, though nothing else is new.
    let mut with = told.clone();
    let conditions = with["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition("Available"));
    s.source = Some(source(&with));
    idle(decide(&s, &mut Memory::default(), &SETTINGS, start));
    let conditions = with["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(condition("ReferencedDataReady"));
    s.source = Some(source(&with));
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, start));
    assert_eq!(types(&patch(&effect)["status"]), ["Available", "Federated"]);
}

#[tokio::test]
async fn what_was_settled_of_another_status_settles_nothing() {
    let c = with_status(hub_copy(), json!({"replicas": 1}));
    let s = snapshot(&deployment(), Some(&c));
    let settled = |of: &Value| {
        let mut memory = Memory::default();
        let (hub, project) = status_digests(&copy(of), &source(&deployment()));
        memory.status.record(hub, project);
        memory
    };
    idle(decide(&s, &mut settled(&c), &SETTINGS, now()));
    let former = with_status(hub_copy(), json!({"replicas": 2}));
    let effect = one(decide(&s, &mut settled(&former), &SETTINGS, now()));
    assert_eq!(effect.reason.label(), "return_status");
}

#[tokio::test]
async fn what_the_status_is_made_of_is_read_unless_there_is_none() {
    let says = json!({"conditions": [condition("Available")]});
    let reads = |s: &Snapshot| decide(s, &mut Memory::default(), &SETTINGS, now());
    let mut d = deployment();
    d["spec"]["cityCode"] = json!("a b");
    let mut s = snapshot(&d, None);
    s.source.as_mut().unwrap().body = None;
    let effect = one(reads(&s));
    assert_eq!(types(&patch(&effect)["status"]), ["Federated"], "it has none");
    let mut s = snapshot(&with_status(d.clone(), says), None);
    s.source.as_mut().unwrap().body = None;
    let (source, copy) = (true, false);
    assert_eq!(reads(&s), Action::Read { source, copy });
    let c = with_status(hub_copy(), json!({"replicas": 1}));
    let mut s = snapshot(&deployment(), Some(&c));
    s.copy.as_mut().unwrap().body = None;
    let (source, copy) = (false, true);
    assert_eq!(reads(&s), Action::Read { source, copy });
}

#[tokio::test]
async fn a_verdict_replaces_its_own_condition_alone() {
    let says = json!({"conditions": [condition("ReferencedDataReady"), condition("Federated")]});
    let mut d = with_status(with_reference(), says);
    d["spec"]["cityCode"] = json!("a b");
    let s = snapshot(&d, None);
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    let status = &patch(&effect)["status"];
    assert_eq!(types(status), ["ReferencedDataReady", "Federated"]);
    assert_eq!(status["conditions"][0]["reason"], "Former");
    assert_eq!(status["conditions"][1]["reason"], "InvalidCityCode");
}

#[tokio::test]
async fn a_copy_that_goes_or_is_not_whole_or_anothers_is_not_written() {
    let mut d = deployment();
    d["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    let changes: [fn(&mut Row<HubCopy>); 3] = [
        |c| c.deleting = true,
        |c| c.partial = true,
        |c| (c.digest.source_uid, c.digest.upstream_namespace) = (None, Some("theirs".into())),
    ];
    for (n, change) in changes.iter().enumerate() {
        let mut s = snapshot(&d, Some(&hub_copy()));
        change(s.copy.as_mut().unwrap());
        let (effects, _) = plan(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        assert!(
            effects.iter().all(|e| e.reason.label() != "update_copy"),
            "{n}: {effects:?}"
        );
    }
}

#[tokio::test]
async fn what_makes_karmada_work_asks_for_its_permit() {
    let asked =
        |s: &Snapshot, permit| -> Decision { decision(s, &Memory::default(), &SETTINGS, permit, now()) };
    let mut changed = deployment();
    changed["spec"]["scaleSettings"]["minReplicas"] = json!(5);
    for (s, class) in [
        (snapshot(&deployment(), None), Class::Create),
        (snapshot(&changed, Some(&hub_copy())), Class::Update),
    ] {
        let action = asked(&s, Permit::Unasked).action;
        assert_eq!(action, Action::Permit(class));
        let (effects, next) = plan(asked(&s, Permit::Wait(SECOND)).action);
        assert_eq!((effects, next), (vec![], Requeue::After(SECOND)), "{class:?}");
    }
}

#[tokio::test]
async fn a_claim_that_is_wrong_anew_has_its_ten_seconds_anew() {
    let mut s = snapshot(&deployment(), Some(&hub_copy()));
    s.is_claim_right = false;
    let (mut memory, start) = (Memory::default(), now());
    let mut at = |s: &Snapshot, seconds| {
        let (effects, _) = plan(decide(s, &mut memory, &SETTINGS, later(start, SECOND * seconds)));
        effects.iter().any(|e| e.reason.label() == "repair_claim")
    };
    assert!(!at(&s, 0) && at(&s, 10));
    s.is_claim_right = true;
    assert!(!at(&s, 15));
    s.is_claim_right = false;
    assert!(!at(&s, 35) && !at(&s, 44), "thirty seconds are over, ten are not");
    assert!(at(&s, 45));
}

#[tokio::test]
async fn to_the_second_a_cell_is_named_and_its_deployment_released() {
    let mut d = deployment();
    d["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    let mut s = snapshot(&d, None);
    s.binding = Some(binding());
    let start = now();
    let almost = later(start, GRACE_PERIOD.checked_sub(SECOND).unwrap());
    let decided = |release_after, at| {
        let settings = Settings {
            release_after,
            ..testing::settings()
        };
        decide(&s, &mut Memory::default(), &settings, at)
    };
    assert_eq!(waits(decided(None, almost)), Requeue::After(SECOND));
    assert_eq!(
        one(decided(None, later(start, GRACE_PERIOD))).reason.label(),
        "return_status"
    );
    let limit = Duration::from_secs(600);
    let released = one(decided(Some(limit), later(start, limit)));
    assert_eq!(released.reason.label(), "let_go");
}

#[tokio::test]
async fn of_an_earlier_life_only_what_stays_and_is_anothers_goes() {
    let drained = |change: fn(&mut Row<HubCopy>)| {
        let mut s = snapshot(&deployment(), Some(&hub_copy()));
        s.hub_state = HubNamespaceState::EarlierLife;
        change(s.copy.as_mut().unwrap());
        let (effects, _) = plan(decide(&s, &mut Memory::default(), &SETTINGS, now()));
        effects.iter().any(|e| e.reason.label() == "drain_earlier_life")
    };
    assert!(drained(|c| c.digest.source_uid = Some("u-former".into())));
    assert!(!drained(|_| {}), "it is this one's");
    assert!(!drained(|c| {
        c.digest.source_uid = Some("u-former".into());
        c.deleting = true;
    }));
}

#[tokio::test]
async fn the_finalizer_for_references_stays_while_companions_hold() {
    let mut d = deployment();
    d["metadata"]["finalizers"] = json!([keys::FEDERATOR_FINALIZER, keys::REFERENCED_DATA_FINALIZER]);
    let mut s = snapshot(&d, Some(&hub_copy()));
    s.companions.hold = true;
    idle(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    s.companions.hold = false;
    let effect = one(decide(&s, &mut Memory::default(), &SETTINGS, now()));
    assert_eq!(
        patch(&effect)["metadata"]["finalizers"],
        json!([keys::FEDERATOR_FINALIZER])
    );
}
