//! 14–16: a live deployment changes its city.

use crate::support::{
    Case, annotation,
    kinds::{DEPLOYMENT, POLICY},
    label, seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::json;

trials![
    #[core]
    a14_city_move,
    a15_others_of_the_old_city_are_untouched,
    a16_wrong_claim_is_repaired,
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
    // Of a vanished policy, and of another city's, which lives in the namespace too.
    for (name, city) in [("web", "DFW"), ("too", "DFW"), ("other", "LHR")] {
        case.deploy(name, city).await;
    }
    let claim = async |name: &str, policy: &str| {
        let what = format!("is claimed by {policy}");
        let copy = case
            .copy_sees(name, &what, |o| {
                annotation(o, keys::CLAIM_NAME) == Some(policy) && label(o, keys::CLAIM_ID).is_some()
            })
            .await;
        label(&copy, keys::CLAIM_ID)
            .map(str::to_owned)
            .expect("the wait asks for it")
    };
    let (ours, theirs) = (claim("web", "city-dfw").await, claim("other", "city-lhr").await);
    assert_eq!(
        claim("too", "city-dfw").await,
        ours,
        "the city's policy claims both"
    );
    for name in ["web", "too"] {
        case.dfw.deployment(&case.hub_ns, name).await;
    }
    case.quiet().await;
    let wrong = [
        ("web", "city-gone", "00000000-0000-4000-8000-00000000dead"),
        ("too", "city-lhr", &*theirs),
    ];
    for (name, policy, id) in wrong {
        let claim = json!({"metadata": {
            "labels": {keys::CLAIM_ID: id}, "annotations": {keys::CLAIM_NAME: policy},
        }});
        case.hub.merge(&DEPLOYMENT, &case.hub_ns, name, claim).await;
    }
    for (name, policy, _) in wrong {
        assert_eq!(
            claim(name, "city-dfw").await,
            ours,
            "{name} lost its claim of {policy}"
        );
    }
    // Karmada itself lets go of a policy that is gone; of a live one nobody frees the copy but the gateway, by one patch.
    let patches = case
        .hub_requests()
        .into_iter()
        .filter(|e| e.action() == "patch workloaddeployments" && e.object_ref.name == "too")
        .count();
    assert_eq!(patches, 1, "one patch takes the claim of city-lhr off");
    for (name, policy, _) in wrong {
        let scale = json!({"spec": {"scaleSettings": {"minReplicas": 2}}});
        case.merge(&DEPLOYMENT, name, scale).await;
        let what = format!("gets changes again after the claim of {policy}");
        case.dfw
            .sees(&case.hub_ns, name, &what, |o| {
                o["spec"]["scaleSettings"]["minReplicas"] == 2
            })
            .await;
    }
    let there = case.lhr.plane.get(&DEPLOYMENT, &case.hub_ns, "too").await;
    assert!(there.is_none(), "the claim of city-lhr brought it nowhere");
}
