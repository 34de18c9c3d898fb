//! Tests: writes to an Instance, decided from an index of server objects; evaluation of claims.

use super::{
    decide, observe,
    quota::claim::{Claim, Claimant},
};
use crate::{
    conditions::Verdict,
    index::{
        digest::{self, Granted},
        tables::TableId,
    },
    instance_types::InstanceSize,
    testing::{Fixture, NS, body, condition, deployment, instance, now, settings, shop, words},
    writes::read,
};
use fedgate_api::{
    ConditionStatus::{self, False, True, Unknown},
    Reason, keys,
    names::ProjectKey,
};
use fedgate_engine::{
    key::{Key, Plane::Cell},
    plan::{Plan, Prepared},
    store::table::Row,
};
use jiff::Timestamp;
use serde_json::{Value, json};

fn key() -> Key {
    TableId::Instances.key(NS, "web-0")
}

fn decided(fixture: &Fixture, quota: Option<&Verdict>) -> Plan<Prepared> {
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    decide::decide(&snapshot, quota, now())
}

/// Decides and executes until the plan is idle; returns the writes and Events.
fn settle(fixture: &mut Fixture, quota: Option<&Verdict>) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..10 {
        let plan = decided(fixture, quota);
        if plan.is_idle() {
            return all;
        }
        all.extend(words(&plan.effects));
        all.extend(plan.notes.iter().map(|note| format!("event {}", note.reason)));
        fixture.perform(&plan.effects);
    }
    panic!("it never rests: {all:#?}");
}

fn with(instance: Value) -> Fixture {
    let mut fixture = Fixture::new(settings());
    fixture.has(&Cell, TableId::Deployments, deployment("web", 1));
    fixture.has(&Cell, TableId::Instances, instance);
    fixture
}

fn says(status: ConditionStatus, reason: Reason) -> Verdict {
    Verdict::of(status, reason, format!("{reason} it is"))
}

fn stored(fixture: &Fixture) -> &Value {
    fixture.get(&Cell, TableId::Instances, NS, "web-0").unwrap()
}

fn said(fixture: &Fixture, type_: &str) -> String {
    let conditions = stored(fixture)["status"]["conditions"].as_array().unwrap();
    let Some(condition) = conditions.iter().find(|c| c["type"] == type_) else {
        return "-".to_owned();
    };
    let text = |key: &str| condition[key].as_str().unwrap().to_owned();
    format!(
        "{} {} @{}",
        text("status"),
        text("reason"),
        condition["observedGeneration"]
    )
}

#[test]
fn a_grant_opens_the_gate_and_what_is_said_follows_the_generation() {
    let mut fixture = with(instance("web", 0));
    let granted = says(True, Reason::QuotaAvailable);
    let written = settle(&mut fixture, Some(&granted));
    assert_eq!(
        written,
        [
            "cell: patch instances/status web-0: instance_conditions",
            "cell: patch instances web-0: instance_gates",
            // The write above increased the generation.
            "cell: patch instances/status web-0: instance_conditions",
        ]
    );
    assert_eq!(
        stored(&fixture)["spec"]["controller"],
        json!({"templateHash": "v1-0", "schedulingGates": []})
    );
    assert_eq!(said(&fixture, "QuotaGranted"), "True QuotaAvailable @2");
    assert_eq!(said(&fixture, "Ready"), "False PendingProgramming @2");
    let plan = decided(&fixture, None);
    assert!(plan.is_idle(), "what is not known anew stays: {plan:?}");
}

#[test]
fn a_grant_at_another_generation_opens_nothing() {
    let mut old = instance("web", 0);
    old["metadata"]["generation"] = json!(2);
    old["status"]["conditions"] = json!([condition("QuotaGranted", "True", "QuotaAvailable")]);
    let mut fixture = with(old);
    let plan = decided(&fixture, None);
    assert_eq!(
        words(&plan.effects),
        ["cell: patch instances/status web-0: instance_conditions"]
    );
    let gates = stored(&fixture)["spec"]["controller"]["schedulingGates"].clone();
    assert_eq!(gates, json!([{"name": "Quota"}]));
    fixture.perform(&plan.effects);
    assert_eq!(
        words(&decided(&fixture, None).effects),
        ["cell: patch instances web-0: instance_gates"]
    );
}

#[test]
fn a_denied_instance_that_never_started_says_so_once() {
    let mut fixture = with(instance("web", 0));
    let denied = says(False, Reason::QuotaExceeded);
    let written = settle(&mut fixture, Some(&denied));
    assert_eq!(
        written,
        [
            "cell: patch instances/status web-0: instance_conditions",
            "event QuotaExceeded"
        ]
    );
    for type_ in ["Ready", "Programmed", "Available"] {
        assert_eq!(said(&fixture, type_), "False PendingQuota @1", "{type_}");
    }
    assert_eq!(settle(&mut fixture, Some(&denied)), [""; 0]);
    let waits = says(Unknown, Reason::QuotaNoBudget);
    assert_eq!(settle(&mut fixture, Some(&waits))[1..], ["event QuotaNoBudget"]);
    assert_eq!(said(&fixture, "Ready"), "False SchedulingGatesPresent @1");
}

#[test]
fn finalizers_come_first_and_nothing_is_claimed_before_them() {
    let mut bare = instance("web", 0);
    bare["metadata"]["finalizers"] = json!(["x.example.com/y"]);
    bare["spec"]["controller"]["schedulingGates"] = json!([{"name": "Quota"}, {"name": "ReferencedData"}]);
    let mut fixture = with(bare);
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    assert!(decide::is_ours(&snapshot) && !decide::may_claim(&snapshot));
    let plan = decided(&fixture, None);
    assert_eq!(
        words(&plan.effects),
        ["cell: patch instances web-0: instance_finalizers"]
    );
    assert_eq!(
        body(&plan.effects[0]),
        json!({"metadata": {
            "finalizers": ["x.example.com/y", keys::CLAIM_FINALIZER, keys::INSTANCE_FINALIZER],
            "annotations": {keys::GATE_START: now().to_string()},
        }})
    );
    fixture.perform(&plan.effects);
    assert!(decide::may_claim(&observed(&fixture)));
    settle(&mut fixture, None);
}

#[test]
fn what_nobody_controls_is_not_ours_unless_it_has_our_finalizers() {
    let mut by_hand = instance("web", 0);
    by_hand["metadata"]["ownerReferences"] = Value::Null;
    let ours = |object: &Value| {
        let fixture = with(object.clone());
        decide::is_ours(&observe::observe(&fixture.context, &key()).unwrap())
    };
    assert!(ours(&by_hand), "it was a deployment's once");
    by_hand["metadata"]["finalizers"] = Value::Null;
    assert!(!ours(&by_hand));
    by_hand["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
    assert!(!ours(&by_hand));
}

#[test]
fn companions_open_their_gate_when_all_are_there() {
    let mut waits = instance("web", 0);
    waits["spec"]["controller"]["schedulingGates"] = json!([{"name": "ReferencedData"}]);
    waits["metadata"]["annotations"] = json!({keys::GATE_START: "2026-05-04T10:00:00Z"});
    let mut fixture = with(waits);
    settle(&mut fixture, None);
    assert_eq!(said(&fixture, "ReferencedDataReady"), "Unknown Resolving @1");
    let expect = |value: &str| json!({"metadata": {"annotations": {keys::EXPECTED_REFERENCED_DATA: value}}});
    let enqueued = fixture.change(
        &Cell,
        TableId::Deployments,
        NS,
        "web",
        &expect(r#"["Secret/db"]"#),
    );
    assert!(enqueued.contains(&key()), "{enqueued:?}");
    let written = settle(&mut fixture, None);
    assert_eq!(
        written,
        [
            "cell: patch instances/status web-0: instance_conditions",
            "event AwaitingPropagation"
        ]
    );
    assert_eq!(said(&fixture, "Ready"), "False AwaitingPropagation @1");
    let other = json!({"metadata": {"namespace": NS, "name": "db"}});
    assert_eq!(
        fixture.has(&Cell, TableId::ConfigMaps, other.clone()),
        [],
        "ConfigMap db is not Secret db"
    );
    assert_eq!(fixture.has(&Cell, TableId::Secrets, other), [key()]);
    settle(&mut fixture, None);
    assert_eq!(
        stored(&fixture)["spec"]["controller"]["schedulingGates"],
        json!([])
    );
    assert_eq!(said(&fixture, "ReferencedDataReady"), "True Ready @2");
    fixture.lost(&Cell, TableId::Secrets, NS, "db");
    assert_eq!(settle(&mut fixture, None), [""; 0], "it was there once");
}

#[test]
fn a_deletion_is_said_and_ends_with_our_two_finalizers_alone() {
    let mut going = instance("web", 0);
    going["metadata"]["deletionTimestamp"] = json!("2026-05-04T10:00:00Z");
    going["metadata"]["finalizers"] =
        json!([keys::CLAIM_FINALIZER, keys::INSTANCE_FINALIZER, "x.example.com/y"]);
    let mut fixture = with(going);
    let written = settle(&mut fixture, None);
    assert_eq!(
        written,
        ["cell: patch instances/status web-0: instance_conditions"]
    );
    assert_eq!(said(&fixture, "Ready"), "False Stopping @1");
    assert!(!decide::is_ending(
        &observe::observe(&fixture.context, &key()).unwrap()
    ));
    let ours = json!({"metadata": {"finalizers": [keys::INSTANCE_FINALIZER, keys::CLAIM_FINALIZER]}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &ours);
    let snapshot = observe::observe(&fixture.context, &key()).unwrap();
    assert!(decide::is_ending(&snapshot));
    let end = decide::release(&snapshot);
    assert_eq!(body(&end), json!({"metadata": {"finalizers": []}}));
    fixture.perform(&[end]);
    assert!(observe::observe(&fixture.context, &key()).is_none());
}

#[test]
fn an_instance_without_controller_or_status_gets_its_conditions() {
    let mut odd = instance("web", 0);
    odd["spec"]["controller"] = Value::Null;
    odd["status"] = Value::Null;
    let mut fixture = with(odd);
    settle(&mut fixture, Some(&says(True, Reason::QuotaDisabled)));
    assert_eq!(said(&fixture, "Ready"), "False PendingProgramming @1");
}

fn claimant(project: &ProjectKey) -> Claimant<'_> {
    Claimant {
        cell: "dfw-1",
        project,
        home: "default",
        namespace: NS,
        name: "web-0",
        uid: "u-web-0",
    }
}

fn found(cell: &str, uid: &str, granted: Option<(bool, &str)>) -> Row<digest::Claim> {
    let claim = digest::Claim {
        requests: fedgate_engine::diff::Digest::of(&json!(null)),
        cell: Some(cell.into()),
        namespace: Some(NS.into()),
        instance: Some(uid.into()),
        created: 100,
        granted: granted.map(|(yes, reason)| Granted {
            yes,
            reason: reason.into(),
            message: "so it is".into(),
            since: 50,
        }),
    };
    let object = json!({"metadata": {"name": "instance-web-0", "uid": "c-1"}});
    read(&serde_json::from_value(object).unwrap(), claim)
}

#[test]
fn a_claim_counts_only_for_whom_it_was_made() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let shop = shop();
    let judge = |found: &Row<digest::Claim>| claimant(&shop).judge(Some(found));
    assert_eq!(claimant(&shop).judge(None), Claim::Absent);
    let granted = Some((true, "QuotaAvailable"));
    assert_eq!(judge(&found("dfw-1", "u-web-0", granted)), Claim::Granted);
    assert_eq!(
        judge(&found("lhr-1", "u-web-0", granted)),
        Claim::AnotherCells {
            cell: "lhr-1".into(),
            granted: Some(fedgate_engine::diff::Digest::of(&json!(null))),
        }
    );
    assert_eq!(
        judge(&found("dfw-1", "u-old", granted)),
        Claim::Predecessors("c-1".into())
    );
    let mut going = found("dfw-1", "u-web-0", granted);
    going.deleting = true;
    assert_eq!(judge(&going), Claim::Terminating);
    for undecided in [None, Some((false, "PendingEvaluation"))] {
        assert_eq!(
            judge(&found("dfw-1", "u-web-0", undecided)),
            Claim::Pending(at(100))
        );
    }
    for (said, reason) in [
        ("QuotaExceeded", Reason::QuotaExceeded),
        ("ValidationFailed", Reason::ValidationFailed),
        ("Whatever", Reason::QuotaExceeded),
    ] {
        let expected = Claim::Denied {
            uid: "c-1".into(),
            reason,
            message: "so it is".to_owned(),
            since: at(100),
        };
        assert_eq!(judge(&found("dfw-1", "u-web-0", Some((false, said)))), expected);
    }
}

#[test]
fn a_claim_asks_for_the_size_and_names_its_instance() {
    let size = InstanceSize {
        millicores: 1000,
        mebibytes: 2048,
    };
    let whole = claimant(&shop()).render(size);
    let project = json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "shop"});
    assert_eq!(
        whole,
        json!({
            "apiVersion": "quota.miloapis.com/v1alpha1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": "instance-web-0", "namespace": "default",
                "labels": {keys::SOURCE_CLUSTER: "dfw-1", keys::INSTANCE_NAMESPACE: NS},
                "annotations": {keys::INSTANCE_UID: "u-web-0"},
            },
            "spec": {"consumerRef": project, "resourceRef": project, "requests": [
                {"resourceType": "compute.datumapis.com/instances", "amount": 1},
                {"resourceType": "compute.datumapis.com/vcpus", "amount": 1000},
                {"resourceType": "compute.datumapis.com/memory", "amount": 2048},
            ]},
        })
    );
}

/// The entry of the service catalogue limits each resource that a cell claims, in the units of the claim.
#[test]
fn the_example_of_the_service_catalogue_limits_what_a_claim_asks_for() {
    let size = InstanceSize {
        millicores: 1000,
        mebibytes: 2048,
    };
    let entry = include_str!("../../../../examples/milo-compute-service.yaml");
    let entry = fedgate_api::yaml::documents(entry).unwrap().pop().unwrap();
    let claimed = claimant(&shop()).render(size);
    let (limits, metrics) = (&entry["spec"]["quota"]["limits"], &entry["spec"]["metrics"]);
    let unit = |metric: &Value| {
        let mut all = metrics.as_array().unwrap().iter();
        all.find(|of| of["name"] == *metric).unwrap()["unit"].clone()
    };
    for request in claimed["spec"]["requests"].as_array().unwrap() {
        let metric = &request["resourceType"];
        let limit = limits
            .as_array()
            .unwrap()
            .iter()
            .find(|of| of["metric"] == *metric);
        assert_eq!(limit.unwrap()["consumerType"]["kind"], "Project", "{metric}");
        assert!(
            limit.unwrap()["defaultLimit"].as_i64() >= request["amount"].as_i64(),
            "{metric}"
        );
        let expected = match metric.as_str().unwrap() {
            "compute.datumapis.com/instances" => "1",
            "compute.datumapis.com/vcpus" => "m1",
            "compute.datumapis.com/memory" => "MiBy",
            other => panic!("{other}"),
        };
        assert_eq!(unit(metric), expected, "{metric}");
    }
}

/// The patch that sets Ready to False also records Initialized, so the fact that the Instance has been ready persists.
#[test]
fn an_instance_that_has_been_ready_says_so_for_good() {
    let mut up = instance("web", 0);
    up["spec"]["controller"]["schedulingGates"] = json!([]);
    up["metadata"]["finalizers"] = json!([keys::CLAIM_FINALIZER, keys::INSTANCE_FINALIZER]);
    let conditions = ["Programmed", "Available", "QuotaGranted"].map(|type_| condition(type_, "True", type_));
    up["status"]["conditions"] = json!(conditions);
    let mut fixture = with(up);
    settle(&mut fixture, None);
    assert_eq!(said(&fixture, "Ready"), "True Available @1");
    assert_eq!(said(&fixture, "Initialized"), "-", "Ready itself says it");
    let down = |reason: &str| {
        json!({"status": {"conditions": [
            condition("Programmed", "True", "Programmed"), condition("Available", "False", reason),
            condition("QuotaGranted", "True", "QuotaAvailable"), condition("Ready", "True", "Available"),
        ]}})
    };
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &down("Starting"));
    assert_eq!(
        settle(&mut fixture, None),
        ["cell: patch instances/status web-0: instance_conditions"]
    );
    assert_eq!(said(&fixture, "Ready"), "False Starting @1");
    assert_eq!(said(&fixture, "Initialized"), "True Initialized @1");
    assert_eq!(settle(&mut fixture, None), [""; 0]);
}

#[test]
fn an_instance_that_never_was_ready_does_not_say_so() {
    let mut fixture = with(instance("web", 0));
    settle(&mut fixture, Some(&says(True, Reason::QuotaAvailable)));
    assert_eq!(said(&fixture, "Initialized"), "-");
}

fn observed(fixture: &Fixture) -> observe::InstanceSnapshot {
    observe::observe(&fixture.context, &key()).unwrap()
}

#[test]
fn quota_was_asked_for_once_the_condition_says_so_of_a_generation() {
    let asked = |said: Value| {
        let mut instance = instance("web", 0);
        instance["status"]["conditions"] = json!([said]);
        decide::has_claimed(&observed(&with(instance)))
    };
    let mut default = condition("QuotaGranted", "Unknown", "Pending");
    default["observedGeneration"] = Value::Null;
    assert!(!asked(default), "the server's default");
    assert!(!asked(condition("QuotaGranted", "True", "QuotaDisabled")));
    assert!(asked(condition("QuotaGranted", "False", "QuotaExceeded")));
}

#[test]
fn a_grant_behind_its_gate_is_urgent_however_old_and_progress_is_not() {
    let judged = |fixture: &Fixture, quota| {
        let (snapshot, plan) = (observed(fixture), decided(fixture, quota));
        (
            decide::is_urgent(&snapshot, &plan),
            decide::is_seen(&snapshot, &plan),
        )
    };
    let mut fixture = with(instance("web", 0));
    let waits = says(Unknown, Reason::QuotaNoBudget);
    settle(&mut fixture, Some(&waits));
    assert_eq!(
        judged(&fixture, Some(&waits)),
        (None, false),
        "nothing is written"
    );
    let raised = json!({"metadata": {"generation": 2}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &raised);
    assert_eq!(judged(&fixture, Some(&waits)), (Some(false), false));
    let mut fixture = with(instance("web", 0));
    settle(&mut fixture, None);
    let mut conditions = stored(&fixture)["status"]["conditions"].clone();
    let all = conditions.as_array_mut().unwrap();
    all.retain(|c| c["type"] != "QuotaGranted");
    all.insert(0, condition("Other", "True", "Other"));
    all.push(condition("QuotaGranted", "True", "QuotaAvailable"));
    let old = json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}});
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &old);
    assert_eq!(judged(&fixture, None), (Some(true), false));
    fixture.perform(&decided(&fixture, None).effects);
    assert_eq!(said(&fixture, "QuotaGranted"), "True QuotaAvailable @2");
    assert_eq!(said(&fixture, "Other"), "True Other @1", "another's word");
    // Referenced data that exists gives the same result.
    let mut waits = instance("web", 0);
    waits["spec"]["controller"]["schedulingGates"] = json!([{"name": "ReferencedData"}]);
    let mut fixture = with(waits);
    let expects = json!({"metadata": {"annotations": {keys::EXPECTED_REFERENCED_DATA: r#"["Secret/db"]"#}}});
    fixture.change(&Cell, TableId::Deployments, NS, "web", &expects);
    let db = json!({"metadata": {"namespace": NS, "name": "db"}});
    fixture.has(&Cell, TableId::Secrets, db);
    while said(&fixture, "ReferencedDataReady") != "True Ready @1" {
        let plan = decided(&fixture, None);
        assert!(!plan.is_idle(), "all are there");
        fixture.perform(&plan.effects);
    }
    fixture.change(&Cell, TableId::Instances, NS, "web-0", &raised);
    assert_eq!(judged(&fixture, None), (Some(true), false));
    let mut up = instance("web", 0);
    up["spec"]["controller"]["schedulingGates"] = json!([]);
    up["status"]["conditions"] = json!(["Programmed", "Available"].map(|t| condition(t, "True", t)));
    assert_eq!(judged(&with(up), None), (Some(true), true), "it is ready");
}

#[test]
fn a_denial_is_no_start_of_what_is_suspended_or_behind_no_gate() {
    for change in [
        json!({"status": {"suspended": true}}),
        json!({"spec": {"controller": {"schedulingGates": []}}}),
    ] {
        let mut fixture = with(instance("web", 0));
        fixture.change(&Cell, TableId::Instances, NS, "web-0", &change);
        settle(&mut fixture, Some(&says(False, Reason::QuotaExceeded)));
        assert_eq!(said(&fixture, "Available"), "-", "{change}");
    }
}

#[test]
fn what_is_not_deleted_is_not_ending_though_all_its_finalizers_are_ours() {
    assert!(!decide::is_ending(&observed(&with(instance("web", 0)))));
}
