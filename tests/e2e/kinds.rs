//! A made-up kind that a folder alone describes (tests/kinds): another group and placement path, a Secret found by
//! `JSONPath`, maps in its status.

use crate::support::{
    Case, annotation, condition,
    kinds::{GADGET, POLICY, SECRET},
    label, seconds, trials,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    gadget_is_carried_with_its_secret,
    #[core]
    gadget_loses_vanished_status_keys,
    gadget_moves_and_leaves,
];

fn gadget(city: &str) -> Value {
    json!({"metadata": {"name": "pump"}, "spec": {
        "where": {"city": city}, "credentials": {"secretName": "token"}, "size": 2,
    }})
}

async fn deploy(case: &Case) -> Value {
    case.secret("token", "Opaque", &json!({"token": "t"})).await;
    let made = case.create(&GADGET, gadget("DFW")).await;
    case.hub.exists(&GADGET, &case.hub_ns, "pump", seconds(60)).await;
    case.dfw
        .plane
        .exists(&GADGET, &case.hub_ns, "pump", seconds(120))
        .await;
    made
}

async fn gadget_is_carried_with_its_secret(case: Case) {
    let made = deploy(&case).await;
    let copy = case.hub.exists(&GADGET, &case.hub_ns, "pump", seconds(5)).await;
    assert_eq!(copy["spec"], made["spec"]);
    assert_eq!(label(&copy, keys::CITY_CODE), Some("DFW"));
    assert_eq!(annotation(&copy, keys::SOURCE_GENERATION), Some("1"));
    assert_eq!(
        annotation(&copy, keys::EXPECTED_REFERENCED_DATA),
        None,
        "its interpreter reads the spec itself"
    );
    let policy = case
        .hub
        .exists(&POLICY, &case.hub_ns, "gadget-city-dfw", seconds(5))
        .await;
    assert_eq!(policy["spec"]["resourceSelectors"][0]["kind"], "Gadget");
    let companion = case.hub.exists(&SECRET, &case.hub_ns, "token", seconds(60)).await;
    assert_eq!(label(&companion, keys::REFERENCED_DATA), Some("true"));
    let source = case
        .project
        .get(&SECRET, &case.ns, "token")
        .await
        .expect("the source is there");
    let delivered = case
        .dfw
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(90))
        .await;
    assert_eq!(delivered["data"], source["data"]);
    case.project
        .sees(&GADGET, &case.ns, "pump", "has its data", seconds(60), |o| {
            condition(o, "ReferencedDataReady").is_some_and(|c| c["reason"] == "Ready")
        })
        .await;
}

async fn gadget_loses_vanished_status_keys(case: Case) {
    deploy(&case).await;
    let report = |status: Value| async {
        case.dfw
            .plane
            .merge_status(&GADGET, &case.hub_ns, "pump", status)
            .await
    };
    report(json!({
        "observedGeneration": 1, "ready": 2,
        "addresses": {"inner": "10.0.0.1", "outer": "192.0.2.1"},
        "units": {"a": {"state": "on", "pressure": 3}, "b": {"state": "on", "pressure": 4}},
    }))
    .await;
    let both = |o: &Value| {
        o["status"]["addresses"]["outer"] == "192.0.2.1" && o["status"]["units"]["b"]["pressure"] == 4
    };
    let there = case
        .project
        .sees(&GADGET, &case.ns, "pump", "has both units", seconds(60), both)
        .await;
    assert_eq!(there["status"]["ready"], 2);
    assert_eq!(there["status"]["observedGeneration"], 1);
    report(json!({"ready": 1, "addresses": {"outer": null}, "units": {"b": null, "a": {"pressure": null}}}))
        .await;
    let there = case
        .project
        .sees(&GADGET, &case.ns, "pump", "has one unit", seconds(60), |o| {
            o["status"]["ready"] == 1
        })
        .await;
    assert_eq!(
        there["status"]["addresses"],
        json!({"inner": "10.0.0.1"}),
        "keys that vanished at the cell vanish"
    );
    assert_eq!(there["status"]["units"], json!({"a": {"state": "on"}}));
    assert_eq!(
        condition(&there, "Federated").map(|c| &c["reason"]),
        Some(&json!("Delivered"))
    );
}

async fn gadget_moves_and_leaves(case: Case) {
    deploy(&case).await;
    case.merge(&GADGET, "pump", json!({"spec": {"where": {"city": "LHR"}}}))
        .await;
    case.lhr
        .plane
        .exists(&GADGET, &case.hub_ns, "pump", seconds(120))
        .await;
    case.lhr
        .plane
        .exists(&SECRET, &case.hub_ns, "token", seconds(90))
        .await;
    case.dfw
        .plane
        .gone(&GADGET, &case.hub_ns, "pump", seconds(90))
        .await;
    case.delete(&GADGET, "pump").await;
    case.project.gone(&GADGET, &case.ns, "pump", seconds(120)).await;
    for kind in [&GADGET, &SECRET] {
        let name = if kind.name == "Gadget" { "pump" } else { "token" };
        case.hub.gone(kind, &case.hub_ns, name, seconds(60)).await;
        case.lhr.plane.gone(kind, &case.hub_ns, name, seconds(90)).await;
    }
    case.hub
        .gone(&POLICY, &case.hub_ns, "gadget-city-lhr", seconds(30))
        .await;
}
