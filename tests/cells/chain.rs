//! The whole way: creation and deletion in their order, restart, suspension, and what others write on our objects.

use crate::support::{
    Case, Wish,
    audit::Entry,
    case::{Mark, is_true, name},
    condition,
    kinds::{CLAIM, DEPLOYMENT, INSTANCE, POD, WORKLOAD},
    label, says, seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    #[core]
    a01_creation_goes_from_plane_to_plane_in_order,
    #[core]
    a02_deletion_goes_in_order_and_leaves_nothing,
    a07_a_restart_replaces_one_after_the_other,
    a07_suspension_keeps_instance_claim_and_place,
    #[core]
    a11_foreign_labels_and_annotations_survive,
    w17_conditions_carry_the_generation_that_gates_raise,
    w31_stripped_labels_come_back,
];

/// One step: plane, what was asked, of which object; by whom, where that matters.
type Step<'a> = (&'a str, &'a str, &'a str, &'a str);

/// The first request of that kind, or the last.
fn at<'a>(asked: &'a [(String, Entry)], (plane, action, object, user): Step<'_>, last: bool) -> &'a str {
    let mut those = asked.iter().filter(|(on, entry)| {
        on == plane
            && entry.succeeded()
            && entry.action() == action
            && entry.object_ref.name == object
            && entry.user.username.contains(user)
    });
    let found = if last { those.next_back() } else { those.next() };
    let (_, entry) = found
        .unwrap_or_else(|| panic!("nobody ({user}) asked {plane} to {action} {object}; asked: {asked:#?}"));
    &entry.request_received_timestamp
}

/// Asserts that each step was first done after the one before.
fn in_order(case: &Case, mark: &Mark, steps: &[Step<'_>]) {
    let asked = case.asked(mark);
    for pair in steps.windows(2) {
        let (before, after) = (at(&asked, pair[0], false), at(&asked, pair[1], false));
        assert!(
            before < after,
            "{:?} at {before} must come before {:?} at {after}",
            pair[0],
            pair[1]
        );
    }
}

async fn a01_creation_goes_from_plane_to_plane_in_order(case: Case) {
    let wish = Wish::new("web", 2).and_in("eu", "LHR", 1);
    let mark = case.mark();
    case.run(&wish).await;
    let (deployment, first, second) = ("web-us-dfw", "web-us-dfw-0", "web-us-dfw-1");
    let claim = "instance-web-us-dfw-0";
    let begin = [
        ("alpha", "create workloads", "web", ""),
        (
            "alpha",
            "create workloaddeployments",
            deployment,
            "fedgate-gateway",
        ),
        ("hub", "create workloaddeployments", deployment, "fedgate-gateway"),
        ("dfw-1", "create workloaddeployments", deployment, ""),
        ("dfw-1", "create instances", first, "fedgate-cell-dfw-1"),
    ];
    in_order(&case, &mark, &begin);
    let made = begin[4];
    let pod = ("dfw-1", "create pods", first, "fedgate-cell-dfw-1");
    let ready = ("dfw-1", "patch pods/status", first, "kwok");
    let copy = ("hub", "create instances", first, "fedgate-cell-dfw-1");
    // Both gates are open before there is a Pod.
    let (binding, granted) = (
        "web-us-dfw-net-0",
        ("alpha", "patch resourceclaims/status", claim, "sandbox-backends"),
    );
    in_order(
        &case,
        &mark,
        &[
            made,
            ("alpha", "create resourceclaims", claim, "fedgate-quota:dfw-1"),
            granted,
            pod,
            ready,
        ],
    );
    in_order(
        &case,
        &mark,
        &[
            ("dfw-1", "create networkbindings", binding, "fedgate-cell-dfw-1"),
            (
                "dfw-1",
                "patch networkbindings/status",
                binding,
                "sandbox-backends",
            ),
            pod,
        ],
    );
    // The tenant sees the Instance before it runs, and the second comes when the first is Ready.
    in_order(
        &case,
        &mark,
        &[
            made,
            copy,
            ("alpha", "create instances", first, "fedgate-gateway"),
        ],
    );
    in_order(
        &case,
        &mark,
        &[ready, ("dfw-1", "create instances", second, "fedgate-cell-dfw-1")],
    );
    let asked = case.asked(&mark);
    let told = at(
        &asked,
        ("hub", "patch instances/status", first, "fedgate-cell-dfw-1"),
        true,
    );
    let shown = at(
        &asked,
        ("alpha", "patch instances/status", first, "fedgate-gateway"),
        true,
    );
    assert!(at(&asked, ready, false) < told && told < shown, "{told} {shown}");
    for instance in case.project.list(&INSTANCE, &case.ns, "").await {
        let interface = &instance["status"]["networkInterfaces"][0]["assignments"];
        assert!(
            interface["networkIP"].is_string(),
            "an address reaches the project: {instance}"
        );
    }
    case.delete(&wish).await;
}

async fn a02_deletion_goes_in_order_and_leaves_nothing(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let (deployment, instance) = ("web-us-dfw", "web-us-dfw-0");
    let slow = json!({"metadata": {"annotations": {"sandbox.fedgate.dev/stop-after": "3"}}});
    case.dfw().plane.merge(&POD, &case.hub_ns, instance, slow).await;
    let mark = case.mark();
    case.delete(&wish).await;
    case.project.gone(&WORKLOAD, &case.ns, "web", seconds(90)).await;
    case.emptied(case.dfw()).await;
    for (plane, namespace, kind) in [
        (&case.project, &case.ns, &DEPLOYMENT),
        (&case.project, &case.ns, &INSTANCE),
        (&case.project, &case.ns, &CLAIM),
        (&case.hub, &case.hub_ns, &DEPLOYMENT),
        (&case.hub, &case.hub_ns, &INSTANCE),
    ] {
        for left in plane.list(kind, namespace, "").await {
            plane.gone(kind, namespace, name(&left), seconds(30)).await;
        }
    }
    let stopped = ("dfw-1", "delete pods", instance, "kwok");
    in_order(
        &case,
        &mark,
        &[
            ("alpha", "delete workloads", "web", ""),
            (
                "alpha",
                "delete workloaddeployments",
                deployment,
                "fedgate-gateway",
            ),
            ("hub", "delete workloaddeployments", deployment, "fedgate-gateway"),
            ("dfw-1", "delete workloaddeployments", deployment, ""),
            ("dfw-1", "delete instances", instance, ""),
            // It says that it stops before anything of it stops.
            ("dfw-1", "patch instances/status", instance, "fedgate-cell-dfw-1"),
            ("dfw-1", "delete pods", instance, "fedgate-cell-dfw-1"),
            stopped,
            (
                "alpha",
                "delete resourceclaims",
                "instance-web-us-dfw-0",
                "fedgate-quota:dfw-1",
            ),
        ],
    );
    let asked = case.asked(&mark);
    let last = at(
        &asked,
        ("dfw-1", "patch instances", instance, "fedgate-cell-dfw-1"),
        true,
    );
    let released = at(
        &asked,
        ("alpha", "delete resourceclaims", "instance-web-us-dfw-0", ""),
        true,
    );
    assert!(released < last, "the finalizers go last: {released} {last}");
}

async fn a07_a_restart_replaces_one_after_the_other(case: Case) {
    let wish = Wish::new("web", 2);
    case.run(&wish).await;
    let before: Vec<String> = case
        .at(case.dfw(), &INSTANCE)
        .await
        .iter()
        .map(|i| uid(i).to_owned())
        .collect();
    let mark = case.mark();
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {
        "compute.datumapis.com/restartedAt": "2026-11-22T10:00:00Z"}}}}});
    case.project.merge(&WORKLOAD, &case.ns, "web", restart).await;
    for ordinal in [1, 0] {
        let old = before[ordinal].clone();
        case.sees(
            &INSTANCE,
            &format!("web-us-dfw-{ordinal}"),
            "is a new one and Ready",
            |i| uid(i) != old && is_true(i, "Ready"),
        )
        .await;
    }
    case.runs(&wish).await;
    in_order(
        &case,
        &mark,
        &[
            ("dfw-1", "delete instances", "web-us-dfw-1", "fedgate-cell-dfw-1"),
            ("dfw-1", "create instances", "web-us-dfw-1", "fedgate-cell-dfw-1"),
            ("dfw-1", "delete instances", "web-us-dfw-0", "fedgate-cell-dfw-1"),
            ("dfw-1", "create instances", "web-us-dfw-0", "fedgate-cell-dfw-1"),
        ],
    );
}

async fn a07_suspension_keeps_instance_claim_and_place(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let instance = "web-us-dfw-0";
    let before = case.sees(&INSTANCE, instance, "is there", |_| true).await;
    let claim = case.project.get(&CLAIM, &case.ns, "instance-web-us-dfw-0").await;
    let claim = claim.expect("there is a claim");
    case.suspend("web-us-dfw", true).await;
    for kind in ["Ready", "Available", "Programmed"] {
        case.cell_says(&INSTANCE, instance, [kind, "False", "Suspended"])
            .await;
    }
    case.project_says(&INSTANCE, instance, ["Ready", "False", "Suspended"])
        .await;
    case.project_says(&DEPLOYMENT, "web-us-dfw", ["Available", "False", "Suspended"])
        .await;
    case.project_says(&DEPLOYMENT, "web-us-dfw", ["ReplicasReady", "False", "Suspended"])
        .await;
    case.project_says(&WORKLOAD, "web", ["Available", "False", "Suspended"])
        .await;
    case.dfw()
        .plane
        .gone(&POD, &case.hub_ns, instance, seconds(30))
        .await;
    // What crashes or is changed meanwhile runs nothing.
    let mark = case.mark();
    case.update(&wish.clone().image("shop/web:2")).await;
    let waits_with = |image: &'static str| {
        move |d: &Value| {
            d["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] == image
                && d["status"]["observedGeneration"] == d["metadata"]["generation"]
                && says(d, ["ReplicasReady", "False", "Suspended"])
        }
    };
    let what = "says that the roll waits";
    case.sees(&DEPLOYMENT, "web-us-dfw", what, waits_with("shop/web:2"))
        .await;
    let during = case.sees(&INSTANCE, instance, "is there", |_| true).await;
    assert_eq!((uid(&during), &during["spec"]), (uid(&before), &before["spec"]));
    let writes = case.writes_of(case.dfw(), &mark);
    assert!(
        !writes
            .iter()
            .any(|w| w.contains("create") || w.contains("delete")),
        "{writes:?}"
    );
    case.update(&wish).await;
    let what = "has its template back";
    case.sees(&DEPLOYMENT, "web-us-dfw", what, waits_with("shop/web:1.4.2"))
        .await;
    case.suspend("web-us-dfw", false).await;
    case.runs(&wish).await;
    let after = case
        .sees(&INSTANCE, instance, "is Ready", |i| is_true(i, "Ready"))
        .await;
    assert_eq!((uid(&after), &after["spec"]), (uid(&before), &before["spec"]));
    assert!(
        after["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["reason"] != "Suspended"),
        "{after}"
    );
    let same = case.project.get(&CLAIM, &case.ns, "instance-web-us-dfw-0").await;
    assert_eq!(uid(&same.expect("the claim stays")), uid(&claim));
}

async fn a11_foreign_labels_and_annotations_survive(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let (instance, deployment) = ("web-us-dfw-0", "web-us-dfw");
    let foreign = json!({"metadata": {"labels": {"example.com/team": "blue"}, "annotations": {"example.com/note": "n"}}});
    let obsolete = json!({"metadata": {"labels": {"compute.datumapis.com/runtime-class": "old"}}});
    let cell = &case.dfw().plane;
    cell.merge(&INSTANCE, &case.hub_ns, instance, foreign.clone())
        .await;
    cell.merge(&POD, &case.hub_ns, instance, foreign.clone()).await;
    case.hub.merge(&INSTANCE, &case.hub_ns, instance, foreign).await;
    cell.merge(&INSTANCE, &case.hub_ns, instance, obsolete).await;
    // What is done next brings a write to each of them.
    case.suspend(deployment, true).await;
    case.project_says(&INSTANCE, instance, ["Ready", "False", "Suspended"])
        .await;
    case.suspend(deployment, false).await;
    case.runs(&wish).await;
    case.sees(&INSTANCE, instance, "has no obsolete label", |i| {
        label(i, "compute.datumapis.com/runtime-class").is_none()
    })
    .await;
    for plane in [cell, &case.hub] {
        let found = plane
            .get(&INSTANCE, &case.hub_ns, instance)
            .await
            .expect("it is there");
        assert_eq!(label(&found, "example.com/team"), Some("blue"), "{found}");
        assert_eq!(
            found["metadata"]["annotations"]["example.com/note"], "n",
            "{found}"
        );
    }
}

async fn w17_conditions_carry_the_generation_that_gates_raise(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let instance = case
        .sees(
            &INSTANCE,
            "web-us-dfw-0",
            "says all of its present generation",
            |i| {
                ["Ready", "QuotaGranted"].iter().all(|kind| {
                    condition(i, kind).is_some_and(|c| c["observedGeneration"] == i["metadata"]["generation"])
                })
            },
        )
        .await;
    assert!(
        instance["metadata"]["generation"].as_i64() > Some(1),
        "opening the gates has raised the generation: {instance}"
    );
    assert!(
        instance["spec"]["controller"]["schedulingGates"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
}

async fn w31_stripped_labels_come_back(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let instance = "web-us-dfw-0";
    let before = case.sees(&INSTANCE, instance, "is there", |_| true).await;
    let nothing: serde_json::Map<String, Value> = keys::LINKING
        .iter()
        .map(|key| ((*key).to_owned(), json!(null)))
        .collect();
    let cell = &case.dfw().plane;
    for labels in [json!(nothing), json!({keys::INSTANCE_INDEX: "7"})] {
        let patch = json!({"metadata": {"labels": labels}});
        cell.merge(&INSTANCE, &case.hub_ns, instance, patch.clone()).await;
        case.hub.merge(&INSTANCE, &case.hub_ns, instance, patch).await;
        let whole = |i: &Value| {
            keys::LINKING
                .iter()
                .all(|key| label(i, key) == label(&before, key) && label(i, key).is_some())
        };
        for plane in [cell, &case.hub] {
            plane
                .sees(
                    &INSTANCE,
                    &case.hub_ns,
                    instance,
                    "has its labels again",
                    seconds(30),
                    whole,
                )
                .await;
        }
    }
    let after = cell
        .get(&INSTANCE, &case.hub_ns, instance)
        .await
        .expect("it lives");
    assert_eq!(uid(&after), uid(&before));
    case.runs(&wish).await;
}
