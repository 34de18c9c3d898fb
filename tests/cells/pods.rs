//! What Pods do, and what becomes of their Instances.

use crate::support::{
    Case, Wish,
    case::{is_true, name, selects},
    kinds::{DEPLOYMENT, INSTANCE, LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, POD, SERVICE, WORKLOAD},
    message, seconds, trials, uid,
};
use fedgate_api::keys;
use serde_json::{Value, json};

trials![
    w08_a_roll_onto_a_bad_image_stops_blocks_nothing_and_is_fixed_forward,
    #[core]
    w20_a_bad_image_is_told_at_every_level,
    w21_a_crash_while_suspended_leaves_no_trace,
    w22_a_crash_loop_is_told_and_fixed_forward,
    w22_a_pod_that_failed_is_replaced_and_its_instance_stays,
    #[core]
    ports_make_a_service,
    #[core]
    pods_keep_the_restricted_profile_and_the_server_enforces_it,
    a_pod_that_the_server_refuses_is_told_with_its_words,
    #[core]
    nothing_reaches_an_instance_but_what_its_template_lets_in,
    a_rule_that_no_policy_can_say_is_told_and_starts_nothing,
];

const BAD: &str = "shop/web:broken";
/// By this label a cell watches what it makes.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

async fn w08_a_roll_onto_a_bad_image_stops_blocks_nothing_and_is_fixed_forward(case: Case) {
    let wish = Wish::new("web", 3);
    case.run(&wish).await;
    let first = uid(&case.at(case.dfw(), &INSTANCE).await[0]).to_owned();
    let bad = wish.clone().image(BAD);
    case.update(&bad).await;
    case.project_says(&INSTANCE, "web-us-dfw-2", ["Ready", "False", "ImageUnavailable"])
        .await;
    // The deployment's status follows that of the Instance, a moment later.
    let waits = |object: &Value| {
        message(object, "ReplicasReady").ends_with("waiting for web-us-dfw-2: ImageUnavailable")
    };
    case.cell_says(
        &DEPLOYMENT,
        "web-us-dfw",
        ["ReplicasReady", "False", "InstancesProvisioning"],
    )
    .await;
    case.dfw()
        .plane
        .sees(
            &DEPLOYMENT,
            &case.hub_ns,
            "web-us-dfw",
            "names the cause",
            seconds(60),
            waits,
        )
        .await;
    // The others serve, and a scale-down waits for nothing.
    let mut two = bad.clone();
    two.places[0].2 = 2;
    case.update(&two).await;
    case.dfw()
        .plane
        .gone(&INSTANCE, &case.hub_ns, "web-us-dfw-2", seconds(60))
        .await;
    case.project_says(&INSTANCE, "web-us-dfw-1", ["Ready", "False", "ImageUnavailable"])
        .await;
    let serving = case.sees(&INSTANCE, "web-us-dfw-0", "is there", |_| true).await;
    assert!(is_true(&serving, "Ready") && uid(&serving) == first, "{serving}");
    case.project_says(&WORKLOAD, "web", ["Available", "True", "AvailablePlacementFound"])
        .await;
    let good = two.image("shop/web:2");
    case.update(&good).await;
    case.runs(&good).await;
}

async fn w20_a_bad_image_is_told_at_every_level(case: Case) {
    let wish = Wish::new("web", 1).image(BAD);
    case.create(&wish).await;
    for (kind, name) in [
        (&INSTANCE, "web-us-dfw-0"),
        (&DEPLOYMENT, "web-us-dfw"),
        (&WORKLOAD, "web"),
    ] {
        let said = if kind.name == INSTANCE.name {
            "Ready"
        } else {
            "Available"
        };
        let object = case
            .project_says(kind, name, [said, "False", "ImageUnavailable"])
            .await;
        assert!(
            message(&object, said).contains(BAD),
            "the image is named: {object}"
        );
    }
    let good = wish.image("shop/web:2");
    case.update(&good).await;
    case.runs(&good).await;
}

/// Says in a Pod's place that it has failed.
async fn fail(case: &Case, pod: &str) {
    let failed = json!({"phase": "Failed", "message": "the node was lost", "containerStatuses": [{
        "name": "web", "image": "shop/web:1.4.2", "imageID": "", "ready": false, "started": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}],
        "conditions": [{"type": "Ready", "status": "False"}]});
    case.dfw()
        .plane
        .merge_status(&POD, &case.hub_ns, pod, failed)
        .await;
}

async fn w21_a_crash_while_suspended_leaves_no_trace(case: Case) {
    let wish = Wish::new("web", 2);
    case.run(&wish).await;
    let before: Vec<String> = case
        .at(case.dfw(), &INSTANCE)
        .await
        .iter()
        .map(|i| uid(i).to_owned())
        .collect();
    case.suspend("web-us-dfw", true).await;
    fail(&case, "web-us-dfw-1").await;
    for instance in ["web-us-dfw-0", "web-us-dfw-1"] {
        case.cell_says(&INSTANCE, instance, ["Programmed", "False", "Suspended"])
            .await;
        case.dfw()
            .plane
            .gone(&POD, &case.hub_ns, instance, seconds(30))
            .await;
        // The project has the suspension too, so that `runs` is not about the time before.
        case.project_says(&INSTANCE, instance, ["Ready", "False", "Suspended"])
            .await;
    }
    case.suspend("web-us-dfw", false).await;
    case.runs(&wish).await;
    let after = case.at(case.dfw(), &INSTANCE).await;
    for (instance, before) in after.iter().zip(&before) {
        assert_eq!(uid(instance), before);
        let conditions = instance["status"]["conditions"]
            .as_array()
            .expect("it has conditions");
        assert!(
            conditions.iter().all(|c| c["reason"] != "Suspended"),
            "{instance}"
        );
        assert!(
            instance["metadata"]["annotations"][keys::RECOVERY].is_null(),
            "{instance}"
        );
    }
}

async fn w22_a_crash_loop_is_told_and_fixed_forward(case: Case) {
    let wish = Wish::new("web", 1).image("shop/web:crashing");
    case.create(&wish).await;
    for kind in ["Available", "Programmed", "Ready"] {
        case.cell_says(&INSTANCE, "web-us-dfw-0", [kind, "False", "InstanceCrashing"])
            .await;
    }
    case.project_says(&WORKLOAD, "web", ["Available", "False", "InstanceCrashing"])
        .await;
    let good = wish.image("shop/web:2");
    case.update(&good).await;
    case.runs(&good).await;
}

async fn w22_a_pod_that_failed_is_replaced_and_its_instance_stays(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let name = "web-us-dfw-0";
    let before = case.sees(&INSTANCE, name, "is there", |_| true).await;
    let pod = case.sees(&POD, name, "is there", |_| true).await;
    fail(&case, name).await;
    case.sees(&POD, name, "is a new one and Ready", |p| {
        uid(p) != uid(&pod) && is_true(p, "Ready")
    })
    .await;
    let after = case
        .sees(&INSTANCE, name, "is Ready with one attempt", |i| {
            let recovery = i["metadata"]["annotations"][keys::RECOVERY]
                .as_str()
                .unwrap_or_default();
            is_true(i, "Ready") && recovery.contains("\"attempts\":1")
        })
        .await;
    assert_eq!(uid(&after), uid(&before));
    case.runs(&wish).await;
}

async fn ports_make_a_service(case: Case) {
    let (with, without) = (
        Wish::new("web", 1).ports(&[("http", 80), ("admin", 9000)]),
        Wish::new("job", 1).ports(&[]),
    );
    case.create(&with).await;
    case.run(&without).await;
    case.runs(&with).await;
    let services = case.at(case.dfw(), &SERVICE).await;
    assert_eq!(services.iter().map(name).collect::<Vec<_>>(), ["web-us-dfw-0"]);
    let ports: Vec<i64> = services[0]["spec"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|p| p["port"].as_i64())
        .collect();
    assert_eq!(ports, [80, 9000]);
    let pod = case
        .sees(&POD, "web-us-dfw-0", "is Ready", |p| is_true(p, "Ready"))
        .await;
    assert!(selects(&services[0], &pod), "{services:?}");
}

async fn pods_keep_the_restricted_profile_and_the_server_enforces_it(case: Case) {
    let wish = Wish::new("web", 1);
    case.run(&wish).await;
    let cell = &case.dfw().plane;
    let namespace = cell
        .get(&NAMESPACE, "", &case.hub_ns)
        .await
        .expect("it is there while its Instances are");
    assert_eq!(namespace["metadata"]["labels"][keys::POD_SECURITY], "restricted");
    let pod = |context: Value| {
        json!({"metadata": {"name": "by-hand"}, "spec": {"containers": [
            {"name": "a", "image": "shop/web:1", "securityContext": context}]}})
    };
    assert!(
        !cell
            .would_create(&POD, &case.hub_ns, pod(json!({"privileged": true})))
            .await,
        "the server refuses what does not keep the profile"
    );
}

async fn a_pod_that_the_server_refuses_is_told_with_its_words(case: Case) {
    case.run(&Wish::new("web", 1)).await;
    let cell = &case.dfw().plane;
    let range = json!({"metadata": {"name": "tiny"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "10m"}}]}});
    cell.create(&LIMIT_RANGE, &case.hub_ns, range).await;
    let job = Wish::new("job", 1);
    case.create(&job).await;
    let told = case
        .project_says(
            &INSTANCE,
            "job-us-dfw-0",
            ["Ready", "False", "ConfigurationError"],
        )
        .await;
    let said = message(&told, "Ready");
    assert!(
        said.starts_with("the cell's API server refuses the Pod: ")
            && said.contains("maximum cpu usage per Container is 10m"),
        "{told}"
    );
    cell.delete(&LIMIT_RANGE, &case.hub_ns, "tiny").await;
    let touched = json!({"metadata": {"labels": {"touched": "yes"}}});
    cell.merge(&INSTANCE, &case.hub_ns, "job-us-dfw-0", touched).await;
    case.runs(&job).await;
}

async fn nothing_reaches_an_instance_but_what_its_template_lets_in(case: Case) {
    let rules = json!([{"ports": [{"port": 8080}], "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}]}]);
    let (open, closed) = (Wish::new("web", 1).ingress(rules), Wish::new("job", 1));
    case.create(&open).await;
    case.run(&closed).await;
    case.runs(&open).await;
    let wanted = json!([{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}],
        "ports": [{"port": 8080, "protocol": "TCP"}]}]);
    let cell = &case.dfw().plane;
    for (instance, ingress) in [("web-us-dfw-0", wanted), ("job-us-dfw-0", Value::Null)] {
        let owner = case.sees(&INSTANCE, instance, "is there", |_| true).await;
        let pod = case.sees(&POD, instance, "is there", |_| true).await;
        let spec = json!({"podSelector": {"matchLabels": {keys::INSTANCE_UID: uid(&owner)}}, "policyTypes": ["Ingress"]});
        // A server leaves an empty list out.
        let is_wanted = |policy: &Value| {
            let mut spec = spec.clone();
            if ingress.is_array() {
                spec["ingress"] = ingress.clone();
            }
            policy["spec"] == spec
        };
        let policy = cell
            .get(&NETWORK_POLICY, &case.hub_ns, instance)
            .await
            .expect("each Instance has one before its Pod");
        assert!(is_wanted(&policy), "{policy}");
        assert_eq!(policy["metadata"]["ownerReferences"][0]["uid"], uid(&owner));
        assert_eq!(
            pod["metadata"]["labels"][keys::INSTANCE_UID],
            uid(&owner),
            "it selects the Pod"
        );
        // Opened by hand, it is closed again, with all that was added.
        let by_hand = json!({"spec": {"ingress": [{}], "egress": [{}],
            "podSelector": {"matchLabels": {"app": "other"}}, "policyTypes": ["Ingress", "Egress"]}});
        cell.merge(&NETWORK_POLICY, &case.hub_ns, instance, by_hand).await;
        case.sees(&NETWORK_POLICY, instance, "is as it was", is_wanted)
            .await;
        // Without the label by which the cell watches its objects it is found under its name, and labelled again.
        let unlabelled = json!({"metadata": {"labels": {MANAGED_BY: null}}});
        cell.merge(&NETWORK_POLICY, &case.hub_ns, instance, unlabelled)
            .await;
        let is_labelled = |after: &Value| {
            let label = &after["metadata"]["labels"][MANAGED_BY];
            label.is_string() && uid(after) == uid(&policy)
        };
        case.sees(&NETWORK_POLICY, instance, "has its label again", is_labelled)
            .await;
    }
    case.delete(&open).await;
    cell.gone(&NETWORK_POLICY, &case.hub_ns, "web-us-dfw-0", seconds(60))
        .await;
    let stays = cell.get(&NETWORK_POLICY, &case.hub_ns, "job-us-dfw-0").await;
    assert!(stays.is_some(), "another Instance's stays");
}

async fn a_rule_that_no_policy_can_say_is_told_and_starts_nothing(case: Case) {
    let wish = Wish::new("web", 1).ingress(json!([{"ports": [{"port": 8080}], "from": [{}]}]));
    case.create(&wish).await;
    let told = case
        .project_says(
            &INSTANCE,
            "web-us-dfw-0",
            ["Ready", "False", "ConfigurationError"],
        )
        .await;
    assert!(
        message(&told, "Ready").contains("networkPolicy.ingress[0].from[0] has no ipBlock"),
        "{told}"
    );
    for kind in [&POD, &NETWORK_POLICY] {
        let made = case.dfw().plane.get(kind, &case.hub_ns, "web-us-dfw-0").await;
        assert!(made.is_none(), "{made:?}");
    }
    let good = wish.ingress(json!([{"ports": [{"port": 8080}]}]));
    case.update(&good).await;
    case.runs(&good).await;
}
