//! What cannot be done is told once, in one place; nothing is adopted, and nothing is lost.

use crate::support::{
    Case, Wish,
    case::is_true,
    kinds::{DEPLOYMENT, EVENT, INSTANCE, POD, SERVICE, WORKLOAD},
    message, says, seconds, trials, uid, wait_for,
};
use serde_json::{Value, json};

trials![
    w10_an_unknown_management_policy_is_told,
    w22_a_template_that_cannot_run_is_told,
    #[core]
    an_instance_made_by_hand_is_never_adopted,
    a_pod_and_a_service_made_by_hand_are_left_alone,
];

/// UID of a Workload that nobody has.
const WORKLOAD_UID: &str = "5f1c2d9e-0000-4000-8000-000000000001";

async fn w10_an_unknown_management_policy_is_told(case: Case) {
    let unknown = Wish::new("web", 2).policy("Foo");
    let refused = case
        .project
        .try_create(&WORKLOAD, &case.ns, unknown.workload())
        .await;
    let refused = refused
        .expect_err("the API server knows the policies of a Workload")
        .to_string();
    assert!(
        refused.contains("instanceManagementPolicy") && refused.contains("Parallel"),
        "{refused}"
    );
    // Who writes a deployment directly is told by the cell.
    case.project
        .create(&DEPLOYMENT, &case.ns, unknown.deployment(WORKLOAD_UID))
        .await;
    for said in ["Available", "ReplicasReady"] {
        let told = case
            .project_says(
                &DEPLOYMENT,
                "web-us-dfw",
                [said, "False", "UnsupportedManagementPolicy"],
            )
            .await;
        assert!(
            message(&told, said).contains("Foo"),
            "what is unknown is named: {told}"
        );
    }
    assert!(case.at(case.dfw(), &INSTANCE).await.is_empty());
    let known = json!({"spec": {"scaleSettings": {"instanceManagementPolicy": "Parallel"}}});
    case.project
        .merge(&DEPLOYMENT, &case.ns, "web-us-dfw", known)
        .await;
    for ordinal in 0..2 {
        case.project_says(
            &INSTANCE,
            &format!("web-us-dfw-{ordinal}"),
            ["Ready", "True", "Available"],
        )
        .await;
    }
}

async fn w22_a_template_that_cannot_run_is_told(case: Case) {
    let wish = Wish::new("web", 1).ports(&[("http", 8080), ("again", 8080)]);
    case.create(&wish).await;
    let told = case
        .project_says(&WORKLOAD, "web", ["Available", "False", "InvalidTemplate"])
        .await;
    assert!(
        message(&told, "Available").contains("8080"),
        "what is wrong is named: {told}"
    );
    // Who writes a deployment directly is told by the cell.
    let mut direct = wish.clone();
    "direct".clone_into(&mut direct.name);
    case.project
        .create(&DEPLOYMENT, &case.ns, direct.deployment(WORKLOAD_UID))
        .await;
    let told = case
        .project_says(
            &INSTANCE,
            "direct-us-dfw-0",
            ["Programmed", "False", "ConfigurationError"],
        )
        .await;
    assert!(
        message(&told, "Programmed").contains("8080"),
        "what is wrong is named: {told}"
    );
    case.project_says(
        &DEPLOYMENT,
        "direct-us-dfw",
        ["Available", "False", "ConfigurationError"],
    )
    .await;
    assert!(case.at(case.dfw(), &POD).await.is_empty());
    let good = wish.ports(&[("http", 8080)]);
    case.update(&good).await;
    case.runs(&good).await;
    let template = json!({"spec": {"template": good.workload()["spec"]["template"]}});
    case.project
        .merge(&DEPLOYMENT, &case.ns, "direct-us-dfw", template)
        .await;
    case.project_says(&INSTANCE, "direct-us-dfw-0", ["Ready", "True", "Available"])
        .await;
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
    let told = async || {
        let events = case.at(case.dfw(), &EVENT).await.into_iter();
        let about = events.filter(|e| e["regarding"]["uid"] == made["metadata"]["uid"]);
        about.map(|e| e["reason"].clone()).collect::<Vec<_>>()
    };
    wait_for(
        "an event says that no deployment controls it",
        seconds(30),
        || async { (told().await == ["NotControlled"]).then_some(()) },
    )
    .await;
    let mut two = wish.clone();
    two.places[0].2 = 2;
    case.update(&two).await;
    let conflict = case
        .project_says(
            &DEPLOYMENT,
            "web-us-dfw",
            ["ReplicasReady", "False", "InstanceNameConflict"],
        )
        .await;
    assert!(
        message(&conflict, "ReplicasReady").contains(name),
        "the name is told: {conflict}"
    );
    assert_eq!(told().await, ["NotControlled"], "it is told once");
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

async fn a_pod_and_a_service_made_by_hand_are_left_alone(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let (cell, name) = (&case.dfw().plane, "web-us-dfw-1");
    // The namespace enforces the profile of the cell's Pods.
    let container = json!({"name": "own", "image": "shop/own:1",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container],
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}}});
    let service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}});
    let made = [
        (&POD, cell.create(&POD, &case.hub_ns, pod).await),
        (&SERVICE, cell.create(&SERVICE, &case.hub_ns, service).await),
    ];
    let mut two = wish.clone();
    two.places[0].2 = 2;
    case.update(&two).await;
    // One after the other is named; who made them takes them away, and the Instance goes on by itself.
    for (kind, made) in made {
        let what = format!("says that a {} has its name", kind.name);
        let names = |i: &Value| {
            says(i, ["Programmed", "False", "ConfigurationError"])
                && message(i, "Programmed")
                    .to_lowercase()
                    .contains(&kind.plural[..kind.plural.len() - 1])
        };
        case.project
            .sees(&INSTANCE, &case.ns, name, &what, seconds(90), names)
            .await;
        let same = cell.get(kind, &case.hub_ns, name).await.expect("it stays");
        assert_eq!(
            (uid(&same), &same["spec"]["containers"]),
            (uid(&made), &made["spec"]["containers"])
        );
        assert!(same["metadata"]["ownerReferences"].is_null(), "{same}");
        cell.delete(kind, &case.hub_ns, name).await;
    }
    case.runs(&two).await;
}
