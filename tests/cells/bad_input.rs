//! What cannot be done is told once, in one place; nothing is adopted, and nothing is lost.

use crate::support::{
    Case, Wish,
    case::is_true,
    condition,
    kinds::{DEPLOYMENT, INSTANCE, POD, WORKLOAD},
    seconds, trials, uid,
};
use serde_json::json;

trials![
    w10_an_unknown_management_policy_is_told,
    w22_a_template_that_cannot_run_is_told,
    an_instance_made_by_hand_is_never_adopted,
];

async fn w10_an_unknown_management_policy_is_told(case: Case) {
    let unknown = Wish::new("web", 2).policy("Foo");
    case.create(&unknown).await;
    for said in ["Available", "ReplicasReady"] {
        let told = case
            .project_says(
                &DEPLOYMENT,
                "web-us-dfw",
                [said, "False", "UnsupportedManagementPolicy"],
            )
            .await;
        let message = condition(&told, said)
            .and_then(|c| c["message"].as_str())
            .unwrap_or_default();
        assert!(message.contains("Foo"), "what is unknown is named: {message}");
    }
    case.project_says(
        &WORKLOAD,
        "web",
        ["Available", "False", "UnsupportedManagementPolicy"],
    )
    .await;
    assert!(case.at(case.dfw(), &INSTANCE).await.is_empty());
    let known = unknown.parallel();
    case.update(&known).await;
    case.runs(&known).await;
}

async fn w22_a_template_that_cannot_run_is_told(case: Case) {
    let wish = Wish::new("web", 1).ports(&[("http", 8080), ("again", 8080)]);
    case.create(&wish).await;
    let told = case
        .project_says(
            &INSTANCE,
            "web-us-dfw-0",
            ["Programmed", "False", "ConfigurationError"],
        )
        .await;
    let message = condition(&told, "Programmed")
        .and_then(|c| c["message"].as_str())
        .unwrap_or_default();
    assert!(message.contains("8080"), "what is wrong is named: {message}");
    case.project_says(&WORKLOAD, "web", ["Available", "False", "ConfigurationError"])
        .await;
    assert!(case.at(case.dfw(), &POD).await.is_empty());
    let good = wish.ports(&[("http", 8080)]);
    case.update(&good).await;
    case.runs(&good).await;
}

async fn an_instance_made_by_hand_is_never_adopted(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let (cell, name) = (&case.dfw().plane, "web-us-dfw-1");
    let first = case.sees(&INSTANCE, "web-us-dfw-0", "is there", |_| true).await;
    let mut spec = first["spec"].clone();
    spec["controller"] = json!(null);
    let made = json!({"metadata": {"name": name, "labels": first["metadata"]["labels"]}, "spec": spec});
    let made = cell.create(&INSTANCE, &case.hub_ns, made).await;
    let mut two = wish.clone();
    two.places[0].2 = 2;
    case.update(&two).await;
    let told = case
        .project_says(
            &DEPLOYMENT,
            "web-us-dfw",
            ["ReplicasReady", "False", "InstanceNameConflict"],
        )
        .await;
    let message = condition(&told, "ReplicasReady")
        .and_then(|c| c["message"].as_str())
        .unwrap_or_default();
    assert!(message.contains(name), "the name is told: {message}");
    let same = cell.get(&INSTANCE, &case.hub_ns, name).await.expect("it stays");
    assert_eq!(
        (uid(&same), &same["spec"], &same["metadata"]["finalizers"]),
        (uid(&made), &made["spec"], &made["metadata"]["finalizers"])
    );
    assert!(same["metadata"]["ownerReferences"].is_null(), "{same}");
    assert!(
        cell.get(&POD, &case.hub_ns, name).await.is_none(),
        "nobody runs it"
    );
    assert!(
        case.hub.get(&INSTANCE, &case.hub_ns, name).await.is_none(),
        "nobody tells of it"
    );
    assert!(is_true(&first, "Ready"));
    // Who made it takes it away, and the deployment goes on by itself.
    cell.delete(&INSTANCE, &case.hub_ns, name).await;
    case.runs(&two).await;
    cell.exists(&POD, &case.hub_ns, name, seconds(5)).await;
}
