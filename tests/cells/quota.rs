//! Budgets: undecided, granted, denied, raised; and claims that are somebody else's.

use crate::support::{
    Case, Wish,
    case::is_true,
    condition,
    kinds::{CLAIM, CONFIG_MAP, DEPLOYMENT, EVENT, INSTANCE, WORKLOAD},
    says, seconds, trials, uid,
};
use fedgate::api::keys;
use serde_json::{Value, json};

trials![
    w03_w04_one_claim_is_granted_others_are_denied_then_undecided,
    w11_a_claim_of_another_cell_grants_nothing,
];

async fn budget(case: &Case, instances: &str) {
    let data = json!({"data": {"instances": instances}});
    let (plane, name) = (&case.project, "sandbox-budgets");
    if plane.get(&CONFIG_MAP, "default", name).await.is_some() {
        plane.merge(&CONFIG_MAP, "default", name, data).await;
    } else {
        let object = json!({"metadata": {"name": name}, "data": data["data"]});
        plane.create(&CONFIG_MAP, "default", object).await;
    }
}

async fn w03_w04_one_claim_is_granted_others_are_denied_then_undecided(case: Case) {
    let case = case.with_budgets().await;
    // One Instance's worth.
    budget(&case, "1").await;
    let first = Wish::new("first", 1);
    case.run(&first).await;
    let web = Wish::new("web", 2).parallel();
    case.create(&web).await;
    for instance in web.instances() {
        let denied = ["QuotaGranted", "False", "QuotaExceeded"];
        let denied = case.project_says(&INSTANCE, &instance, denied).await;
        assert!(says(&denied, ["Ready", "False", "PendingQuota"]), "{denied}");
    }
    let counted = |d: &Value| {
        let message = condition(d, "ReplicasReady").and_then(|c| c["message"].as_str());
        says(d, ["ReplicasReady", "False", "QuotaExceeded"])
            && message.is_some_and(|m| m.starts_with("2 of 2 desired replicas are pending quota"))
    };
    let what = "says how many wait for quota";
    case.project
        .sees(&DEPLOYMENT, &case.ns, "web-us-dfw", what, seconds(60), counted)
        .await;
    case.project_says(&WORKLOAD, "web", ["Available", "False", "QuotaNotGranted"])
        .await;
    // A denial takes nothing down.
    let running = case.project.get(&INSTANCE, &case.ns, "first-us-dfw-0").await;
    assert!(running.is_some_and(|i| is_true(&i, "Ready")));
    undecided(&case).await;
    let word = json!({"namespace": case.ns, "hub": case.hub_ns});
    case.suite.begun("w03", word, "beta", &case.ns).await;
}

/// A claim that nobody decides says so, once; and is granted when somebody does. What was denied has budget from then
/// on.
async fn undecided(case: &Case) {
    budget(case, "none").await;
    let late = Wish::new("late", 1);
    case.create(&late).await;
    let instance = "late-us-dfw-0";
    case.cell_says(
        &INSTANCE,
        instance,
        ["QuotaGranted", "Unknown", "PendingEvaluation"],
    )
    .await;
    let waits = |i: &Value| says(i, ["QuotaGranted", "Unknown", "QuotaNoBudget"]);
    let (what, limit) = ("says that nobody decides", seconds(100));
    case.dfw()
        .plane
        .sees(&INSTANCE, &case.hub_ns, instance, what, limit, waits)
        .await;
    let events = case.at(case.dfw(), &EVENT).await;
    let of_it = |e: &&Value| e["reason"] == "QuotaNoBudget" && e["regarding"]["name"] == instance;
    assert!(
        events.iter().filter(of_it).count() <= 1,
        "it is told once: {events:#?}"
    );
    budget(case, "10").await;
    case.runs(&late).await;
}

async fn w11_a_claim_of_another_cell_grants_nothing(case: Case) {
    let mut other = json!({"metadata": {"name": "instance-web-us-dfw-0",
        "labels": {keys::SOURCE_CLUSTER: "sfo-1"}, "annotations": {keys::INSTANCE_UID: "0b1c2d3e-0000-4000-8000-000000000001"}}});
    let project = json!({"apiGroup": "resourcemanager.miloapis.com", "kind": "Project", "name": "alpha"});
    other["spec"] = json!({"consumerRef": project, "resourceRef": project,
        "requests": [{"resourceType": "compute.datumapis.com/instances", "amount": 1}]});
    let other = case.project.create(&CLAIM, &case.ns, other).await;
    let wish = Wish::new("web", 1);
    case.create(&wish).await;
    let gated = case
        .cell_says(
            &INSTANCE,
            "web-us-dfw-0",
            ["QuotaGranted", "Unknown", "PendingEvaluation"],
        )
        .await;
    let said = |i: &Value| {
        condition(i, "QuotaGranted")
            .is_some_and(|c| c["message"].as_str().is_some_and(|m| m.contains("sfo-1")))
    };
    let gated = if said(&gated) {
        gated
    } else {
        case.sees(&INSTANCE, "web-us-dfw-0", "names the other cell", said)
            .await
    };
    assert!(!is_true(&gated, "Ready"));
    let same = case
        .project
        .get(&CLAIM, &case.ns, "instance-web-us-dfw-0")
        .await
        .expect("it stays");
    assert_eq!(uid(&same), uid(&other));
    assert!(same["metadata"]["deletionTimestamp"].is_null());
    // Who made it takes it away; then the Instance gets one of its own, by itself.
    case.project
        .delete(&CLAIM, &case.ns, "instance-web-us-dfw-0")
        .await;
    let word = json!({"namespace": case.ns, "hub": case.hub_ns});
    case.suite.begun("w11", word, "alpha", &case.ns).await;
}
