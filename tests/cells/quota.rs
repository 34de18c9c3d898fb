//! Budgets: undecided, granted, denied, raised; and claims that are somebody else's.

use crate::support::{
    Case, TestCase, Wish,
    case::is_true,
    condition,
    kinds::{CLAIM, DEPLOYMENT, EVENT, INSTANCE, WORKLOAD},
    lone_trials, says, seconds, trials, uid, wait_for, with_cleanup,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::path::Path;

trials![
    w03_w04_one_claim_is_granted_others_are_denied_then_undecided,
    #[core]
    w11_a_claim_of_another_cell_grants_nothing,
];
lone_trials![projects_below_one_address_are_asked_again_each_by_itself];

async fn w03_w04_one_claim_is_granted_others_are_denied_then_undecided(case: Case) {
    let case = case.with_budgets().await;
    // One Instance's worth.
    case.budget("1").await;
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
    case.budget("none").await;
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
    case.budget("10").await;
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

/// The quota of an Instance whose project cannot be asked.
const UNAVAILABLE: [&str; 3] = ["QuotaGranted", "False", "QuotaBackendUnavailable"];

async fn projects_below_one_address_are_asked_again_each_by_itself(case: Case) {
    let dfw = case.dfw();
    let (platform, flags) = case.suite.platform().await;
    // At the first moment the file is half written, and when it is whole nobody answers.
    std::fs::write(&flags[1], "apiVersion: v1\nkind: [").expect("write a file");
    platform.line.cut();
    let log = dfw.log_mark();
    dfw.restart_with(&flags.each_ref().map(String::as_str)).await;
    let body = async {
        let first = Wish::new("first", 1);
        case.create(&first).await;
        let unknown = ["QuotaGranted", "False", "QuotaProjectNotFound"];
        case.cell_says(&INSTANCE, "first-us-dfw-0", unknown).await;
        wait_for("the cell says why", seconds(30), || async {
            let lines = dfw.log_since(log);
            let told = lines
                .iter()
                .any(|line| line.contains("does not answer quota requests"));
            told.then_some(())
        })
        .await;
        platform.kubeconfig(Path::new(&flags[1]));
        case.cell_says(&INSTANCE, "first-us-dfw-0", UNAVAILABLE).await;
        platform.line.restore();
        case.runs(&first).await;
        // One project goes away while it is watched; the other has what it asks for.
        platform.cut("alpha");
        let late = Wish::new("late", 1);
        case.create(&late).await;
        let other = case.with_budgets().await;
        other.budget("10").await;
        other.run(&Wish::new("web", 1)).await;
        let waits = case.cell_says(&INSTANCE, "late-us-dfw-0", UNAVAILABLE).await;
        assert!(!is_true(&waits, "Ready"), "{waits}");
        platform.restore("alpha");
        case.runs(&late).await;
        for (project, case, instance) in [
            ("alpha", &case, "late-us-dfw-0"),
            ("beta", &other, "web-us-dfw-0"),
        ] {
            let claim = case
                .project
                .get(&CLAIM, &case.ns, &format!("instance-{instance}"))
                .await;
            assert!(claim.is_some_and(|c| is_true(&c, "Granted")), "{project}");
        }
        other.clean_up().await;
    };
    with_cleanup(body, dfw.restart_with(&[])).await;
}
