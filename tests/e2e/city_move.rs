//! 14–16: a live deployment changes its city.

use crate::support::{
    Case, annotation,
    kinds::{DEPLOYMENT, POLICY},
    label, seconds, trials, uid,
};
use fedgate::api::keys;
use serde_json::json;

trials![
    a14_city_move,
    a15_others_of_the_old_city_are_untouched,
    a16_wrong_claim_is_repaired
];

async fn a14_city_move(case: Case) {
    let before = case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.dfw.report(&case.hub_ns, "web", 1, 1).await;
    case.project_sees("web", "has the cell's counters", |o| o["status"]["replicas"] == 1)
        .await;
    case.quiet().await;
    let count = case.count();
    case.merge(&DEPLOYMENT, "web", json!({"spec": {"cityCode": "LHR"}}))
        .await;
    case.lhr.deployment(&case.hub_ns, "web").await;
    case.dfw.gone(&case.hub_ns, "web").await;
    let moved = case.copy("web").await;
    assert_eq!(uid(&moved), uid(&before), "the copy is moved, not replaced");
    assert_eq!(label(&moved, keys::CITY_CODE), Some("LHR"));
    assert_eq!(annotation(&moved, keys::SOURCE_GENERATION), Some("2"));
    case.copy_sees("web", "is claimed by city-lhr", |o| {
        annotation(o, keys::CLAIM_NAME) == Some("city-lhr")
    })
    .await;
    case.event("web", "CityMoved").await;
    case.hub
        .gone(&POLICY, &case.hub_ns, "city-dfw", seconds(60))
        .await;
    assert!(case.hub.get(&POLICY, &case.hub_ns, "city-lhr").await.is_some());
    let patches = case
        .writes(&count)
        .into_iter()
        .filter(|write| write == "hub: patch workloaddeployments")
        .count();
    assert_eq!(patches, 1, "one patch on the copy moves it");
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"spec": {"scaleSettings": {"minReplicas": 3}}}),
    )
    .await;
    case.lhr
        .sees(&case.hub_ns, "web", "has the later change", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 3
        })
        .await;
    // The left cell loses the namespace too, after the linger.
    case.dfw.namespace_gone(&case.hub_ns).await;
}

async fn a15_others_of_the_old_city_are_untouched(case: Case) {
    case.deploy("stays", "DFW").await;
    case.deploy("moves", "DFW").await;
    let at_cell = case.dfw.deployment(&case.hub_ns, "stays").await;
    case.dfw.deployment(&case.hub_ns, "moves").await;
    case.quiet().await;
    let before = case.copy("stays").await;
    case.merge(&DEPLOYMENT, "moves", json!({"spec": {"cityCode": "LHR"}}))
        .await;
    case.lhr.deployment(&case.hub_ns, "moves").await;
    case.dfw.gone(&case.hub_ns, "moves").await;
    let same = |state: Option<&serde_json::Value>| {
        state.is_some_and(|o| {
            uid(o) == uid(&at_cell) && o["metadata"]["generation"] == at_cell["metadata"]["generation"]
        })
    };
    let time = seconds(crate::support::gateway::LINGER + 3);
    case.dfw
        .plane
        .holds(&DEPLOYMENT, &case.hub_ns, "stays", "is untouched", time, same)
        .await;
    let after = case.copy("stays").await;
    assert_eq!(
        (uid(&after), &after["metadata"]["generation"]),
        (uid(&before), &before["metadata"]["generation"])
    );
    assert!(case.hub.get(&POLICY, &case.hub_ns, "city-dfw").await.is_some());
}

async fn a16_wrong_claim_is_repaired(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    let claimed = case
        .copy_sees("web", "is claimed", |o| {
            annotation(o, keys::CLAIM_NAME) == Some("city-dfw") && label(o, keys::CLAIM_ID).is_some()
        })
        .await;
    case.quiet().await;
    let vanished = json!({"metadata": {
        "labels": {keys::CLAIM_ID: "00000000-0000-4000-8000-00000000dead"},
        "annotations": {keys::CLAIM_NAME: "city-gone"},
    }});
    case.hub.merge(&DEPLOYMENT, &case.hub_ns, "web", vanished).await;
    case.copy_sees("web", "is claimed by city-dfw again", |o| {
        annotation(o, keys::CLAIM_NAME) == Some("city-dfw")
            && label(o, keys::CLAIM_ID) == label(&claimed, keys::CLAIM_ID)
    })
    .await;
    case.merge(
        &DEPLOYMENT,
        "web",
        json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
    )
    .await;
    case.dfw
        .sees(&case.hub_ns, "web", "gets changes again", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == 2
        })
        .await;
}
