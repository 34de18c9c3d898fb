//! 31–42: the cells' Instances in the project.

use crate::support::{
    Case, Cell, annotation,
    cell::{THEN, running, waiting},
    condition, deployment,
    kinds::{DEPLOYMENT, INSTANCE},
    label, lone_trials, objects,
    plane::BY_EVENT,
    seconds, trials, uid, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use tokio::time::Instant;

trials![
    #[core]
    a31_hand_made_write_back_is_projected,
    #[core]
    a32_owner_is_the_live_deployment,
    #[core]
    a36_recreated_deployment,
    #[core]
    a37_forged_identity,
    #[core]
    a38_wrong_owner_uid,
    #[core]
    a39_tenants_own_instance,
    #[core]
    a40_nothing_extra_arrives,
    #[core]
    a42_projection_disturbed_by_hand,
];

lone_trials![
    #[core]
    a35_scale_down_while_the_gateway_is_down,
    a41_quarantine_is_said_once,
    a33_projection_follows_the_deployments_event,
    a34_scale_down_removes_the_projection,
];

/// A write-back as someone might make it by hand: identity, name and UID of the deployment, nothing else.
fn by_hand(case: &Case, name: &str, deployment: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            keys::UPSTREAM_CLUSTER: Case::project_label(),
            keys::UPSTREAM_NAMESPACE: case.ns,
            keys::WORKLOAD_DEPLOYMENT_NAME: deployment,
            keys::WORKLOAD_DEPLOYMENT_UID: "9b3e7c10-0000-4000-8000-000000000003",
            keys::INSTANCE_CITY_CODE: "DFW",
        }},
        "spec": objects::template()["spec"],
    })
}

async fn write(case: &Case, object: Value) -> Value {
    case.hub.create(&INSTANCE, &case.hub_ns, object).await
}

async fn projection(case: &Case, name: &str) -> Value {
    case.project.exists(&INSTANCE, &case.ns, name, seconds(30)).await
}

async fn a31_hand_made_write_back_is_projected(case: Case) {
    case.deploy("web", "DFW").await;
    write(&case, by_hand(&case, "web-0", "web")).await;
    case.hub
        .merge_status(&INSTANCE, &case.hub_ns, "web-0", waiting())
        .await;
    let projected = projection(&case, "web-0").await;
    assert_eq!(
        label(&projected, keys::UPSTREAM_CLUSTER),
        Some(Case::project_label().as_str())
    );
    assert_eq!(
        label(&projected, keys::UPSTREAM_NAMESPACE),
        Some(case.ns.as_str())
    );
    assert_eq!(label(&projected, keys::WORKLOAD_DEPLOYMENT_NAME), Some("web"));
    assert_eq!(projected["spec"], objects::template()["spec"]);
    let ready = |o: &Value| condition(o, "Ready").is_some_and(|c| c["reason"] == "SchedulingGatesPresent");
    let there = case
        .project
        .sees(&INSTANCE, &case.ns, "web-0", "has the status", seconds(30), ready)
        .await;
    let numbered = there["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .any(|c| c.get("observedGeneration").is_some());
    assert!(!numbered, "a cell's generation means nothing here");
}

async fn a32_owner_is_the_live_deployment(case: Case) {
    let made = case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    case.copy("web").await;
    write(&case, by_hand(&case, "web-0", "web")).await;
    let projected = projection(&case, "web-0").await;
    let owners = projected["metadata"]["ownerReferences"]
        .as_array()
        .expect("it has an owner");
    let wanted = json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web", "uid": uid(&made)});
    assert_eq!(owners, &[wanted], "one plain owner reference");
}

async fn a33_projection_follows_the_deployments_event(case: Case) {
    // The hub namespace exists through another deployment; the write-back comes before its own.
    case.deploy("other", "DFW").await;
    write(&case, by_hand(&case, "web-0", "web")).await;
    case.project
        .holds(&INSTANCE, &case.ns, "web-0", "is absent", seconds(3), |state| {
            state.is_none()
        })
        .await;
    let created = Instant::now();
    case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    projection(&case, "web-0").await;
    assert!(
        created.elapsed() < BY_EVENT,
        "projected {:?} after the deployment",
        created.elapsed()
    );
}

async fn a34_scale_down_removes_the_projection(case: Case) {
    case.deploy("web", "DFW").await;
    for ordinal in [0, 1] {
        case.dfw.run(&case.hub_ns, "web", ordinal).await;
        projection(&case, &format!("web-{ordinal}")).await;
    }
    case.dfw.hub.delete(&INSTANCE, &case.hub_ns, "web-1").await;
    let deleted = Instant::now();
    case.project.gone(&INSTANCE, &case.ns, "web-1", seconds(20)).await;
    assert!(
        deleted.elapsed() < BY_EVENT,
        "gone {:?} after its write-back",
        deleted.elapsed()
    );
    assert!(case.project.get(&INSTANCE, &case.ns, "web-0").await.is_some());
}

async fn a35_scale_down_while_the_gateway_is_down(case: Case) {
    case.deploy("web", "DFW").await;
    for ordinal in [0, 1] {
        case.dfw.run(&case.hub_ns, "web", ordinal).await;
        projection(&case, &format!("web-{ordinal}")).await;
    }
    // Without a report the hub may have lost its write-backs.
    case.dfw.report(&case.hub_ns, "web", 2, 2).await;
    let reported = |o: &Value| o["status"]["readyReplicas"] == 2;
    case.project_sees("web", "has the cell's report", reported).await;
    case.suite.gateway.stop().await;
    case.dfw.hub.delete(&INSTANCE, &case.hub_ns, "web-1").await;
    case.suite.gateway.start().await;
    case.project.gone(&INSTANCE, &case.ns, "web-1", seconds(30)).await;
    assert!(case.project.get(&INSTANCE, &case.ns, "web-0").await.is_some());
}

async fn a36_recreated_deployment(case: Case) {
    let first = case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    case.copy("web").await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    projection(&case, "web-0").await;
    case.delete(&DEPLOYMENT, "web").await;
    case.project
        .gone(&DEPLOYMENT, &case.ns, "web", seconds(120))
        .await;
    let since = case.project.version(&INSTANCE, &case.ns).await;
    let left = case.project.get(&INSTANCE, &case.ns, "web-0").await;
    let second = case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    assert_ne!(uid(&first), uid(&second));
    let owner = |o: &Value| {
        o["metadata"]["ownerReferences"][0]["uid"]
            .as_str()
            .map(str::to_owned)
    };
    // The garbage collector or the gateway ends what the dead owner had; nothing new may name it.
    case.project
        .until(
            &INSTANCE,
            &case.ns,
            "web-0",
            "no longer names the dead deployment",
            seconds(60),
            |state| state.is_none_or(|o| owner(o).as_deref() != Some(uid(&first))),
        )
        .await;
    case.copy_sees("web", "is the new deployment's", |o| {
        annotation(o, keys::SOURCE_UID) == Some(uid(&second))
    })
    .await;
    case.dfw
        .sees(&case.hub_ns, "web", "is the new deployment's", |o| {
            annotation(o, keys::SOURCE_UID) == Some(uid(&second))
        })
        .await;
    case.dfw.plane.delete(&INSTANCE, &case.hub_ns, "web-0").await;
    case.dfw
        .plane
        .gone(&INSTANCE, &case.hub_ns, "web-0", seconds(30))
        .await;
    case.hub.gone(&INSTANCE, &case.hub_ns, "web-0", seconds(60)).await;
    case.dfw.run(&case.hub_ns, "web", 0).await;
    let adopted = |o: &Value| owner(o).as_deref() == Some(uid(&second));
    case.project
        .sees(
            &INSTANCE,
            &case.ns,
            "web-0",
            "is owned by the new deployment",
            BY_EVENT,
            adopted,
        )
        .await;
    // What the first life had left may only go; whatever came since is the second's alone.
    let left = left.as_ref().map(uid);
    for (_, projection, there) in case.project.history(&INSTANCE, &case.ns, &since).await {
        let going = !there || !projection["metadata"]["deletionTimestamp"].is_null();
        let owners = projection["metadata"]["ownerReferences"]
            .as_array()
            .map_or(0, Vec::len);
        let dead = going && left == Some(uid(&projection));
        assert!(dead || (adopted(&projection) && owners == 1), "{projection}");
    }
}

async fn a37_forged_identity(case: Case) {
    let beta = case.suite.beta_log.mark();
    let victim = case
        .suite
        .beta
        .create(
            &crate::support::kinds::NAMESPACE,
            "",
            json!({"metadata": {"name": case.ns}}),
        )
        .await;
    case.suite
        .beta
        .create(&DEPLOYMENT, &case.ns, deployment("web", "NOWHERE"))
        .await;
    case.deploy("web", "DFW").await;
    // No other test forges an identity while this one runs.
    let rejections = || async {
        let gateway = &case.suite.gateway;
        gateway
            .metric("fedgate_identity_rejections_total", &["identity_mismatch"])
            .await
    };
    let rejected = rejections().await;
    let mut cluster = by_hand(&case, "web-0", "web");
    cluster["metadata"]["labels"][keys::UPSTREAM_CLUSTER] = json!("cluster-beta");
    let mut namespace = by_hand(&case, "web-1", "web");
    namespace["metadata"]["labels"][keys::UPSTREAM_NAMESPACE] = json!("default");
    write(&case, cluster).await;
    write(&case, namespace).await;
    wait_for("the rejections are counted", seconds(20), || async {
        (rejections().await >= rejected + 2.0).then_some(())
    })
    .await;
    case.quiet().await;
    for name in ["web-0", "web-1"] {
        assert!(
            case.project.get(&INSTANCE, &case.ns, name).await.is_none(),
            "{name} is not projected"
        );
    }
    let asked = |entries: Vec<crate::support::Entry>| -> Vec<String> {
        let instances = entries
            .into_iter()
            .filter(|e| e.object_ref.resource == "instances" && e.verb != "watch" && e.verb != "list");
        instances.map(|e| e.action()).collect()
    };
    let beta = case.suite.beta_log.since(beta, crate::support::audit::GATEWAY);
    assert_eq!(
        asked(beta),
        Vec::<String>::new(),
        "no request goes to the other project"
    );
    assert_eq!(
        asked(case.project_requests()),
        Vec::<String>::new(),
        "no request goes to any project"
    );
    case.suite
        .beta
        .delete(&crate::support::kinds::NAMESPACE, "", &case.ns)
        .await;
    drop(victim);
}

/// A write-back whose controller reference names the copy under another UID.
fn wrongly_owned(case: &Case, name: &str) -> Value {
    let mut object = by_hand(case, name, "web");
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web",
        "uid": "00000000-0000-4000-8000-00000000dead", "controller": true, "blockOwnerDeletion": true,
    }]);
    // The garbage collector would take an object whose only owner never was: a finalizer keeps it for the test.
    object["metadata"]["finalizers"] = json!(["example.com/kept-by-the-test"]);
    object
}

async fn a38_wrong_owner_uid(case: Case) {
    case.deploy("web", "DFW").await;
    let object = wrongly_owned(&case, "web-0");
    write(&case, object).await;
    let event = case.event("web", "QuarantinedOwnerMismatch").await;
    assert_eq!(event["action"], "QuarantiningProjection");
    case.project
        .holds(&INSTANCE, &case.ns, "web-0", "is absent", seconds(2), |state| {
            state.is_none()
        })
        .await;
    release(&case, "web-0").await;
}

/// Ends an object that a test kept by a finalizer.
async fn release(case: &Case, name: &str) {
    case.hub.delete(&INSTANCE, &case.hub_ns, name).await;
    let bare = json!({"metadata": {"finalizers": null}});
    // The garbage collector may have begun to delete it: then it goes with its finalizer.
    let _ = case.hub.try_merge(&INSTANCE, &case.hub_ns, name, &bare).await;
    case.hub.gone(&INSTANCE, &case.hub_ns, name, seconds(20)).await;
}

async fn a39_tenants_own_instance(case: Case) {
    let own = json!({"metadata": {"name": "web-0", "labels": {"mine": "yes"}}, "spec": objects::template()["spec"]});
    let own = case.create(&INSTANCE, own).await;
    case.deploy("web", "DFW").await;
    write(&case, by_hand(&case, "web-0", "web")).await;
    let event = case.event("web", "QuarantinedNameTaken").await;
    assert_eq!(event["type"], "Warning");
    case.quiet().await;
    let after = case
        .project
        .get(&INSTANCE, &case.ns, "web-0")
        .await
        .expect("the tenant's Instance stays");
    assert_eq!(
        after["metadata"]["resourceVersion"], own["metadata"]["resourceVersion"],
        "it is untouched"
    );
    // With the tenant's gone, the projection appears at once.
    case.delete(&INSTANCE, "web-0").await;
    case.project
        .sees(&INSTANCE, &case.ns, "web-0", "is the projection", BY_EVENT, |o| {
            label(o, keys::UPSTREAM_CLUSTER).is_some()
        })
        .await;
}

async fn a40_nothing_extra_arrives(case: Case) {
    case.deploy("web", "DFW").await;
    let mut object = by_hand(&case, "web-0", "web");
    object["metadata"]["labels"]["extra"] = json!("1");
    object["metadata"]["labels"][keys::CELL] = json!("dfw-1");
    object["metadata"]["annotations"] =
        json!({keys::INSTANCE_UID: "9b3e7c10-0000-4000-8000-000000000004", "note": "x"});
    object["metadata"]["finalizers"] = json!(["example.com/kept-by-the-test"]);
    write(&case, object).await;
    let there = projection(&case, "web-0").await;
    assert!(there["metadata"].get("finalizers").is_none());
    assert!(
        there["metadata"].get("annotations").is_none(),
        "no annotations: {}",
        there["metadata"]["annotations"]
    );
    assert_eq!((label(&there, "extra"), label(&there, keys::CELL)), (None, None));
    release(&case, "web-0").await;
    case.project.gone(&INSTANCE, &case.ns, "web-0", seconds(20)).await;
    let mut large = by_hand(&case, "web-1", "web");
    large["spec"]["runtime"]["sandbox"]["containers"][0]["env"] = (0..340)
        .map(|n| json!({"name": format!("V{n}"), "value": "x".repeat(1_000)}))
        .collect();
    write(&case, large).await;
    case.event("web", "QuarantinedTooLarge").await;
    assert!(
        case.project.get(&INSTANCE, &case.ns, "web-1").await.is_none(),
        "over 320 KiB it is not projected"
    );
    let crowded: Vec<Value> = (0..33).map(|n| json!({"type": format!("C{n}"), "status": "True", "reason": "R", "message": "", "lastTransitionTime": THEN})).collect();
    write(&case, by_hand(&case, "web-2", "web")).await;
    projection(&case, "web-2").await;
    case.hub
        .merge_status(&INSTANCE, &case.hub_ns, "web-2", json!({"conditions": crowded}))
        .await;
    case.quiet().await;
    let there = case
        .project
        .get(&INSTANCE, &case.ns, "web-2")
        .await
        .expect("it stays");
    assert!(
        there["status"]["conditions"]
            .as_array()
            .is_some_and(|list| list.len() <= 32),
        "33 conditions do not arrive"
    );
}

async fn a41_quarantine_is_said_once(case: Case) {
    let (gateway, mark) = (&case.suite.gateway, case.suite.gateway.log_mark());
    let own = json!({"metadata": {"name": "web-1"}, "spec": objects::template()["spec"]});
    case.create(&INSTANCE, own).await;
    case.deploy("web", "DFW").await;
    let owned = wrongly_owned(&case, "web-0");
    write(&case, owned).await;
    write(&case, by_hand(&case, "web-1", "web")).await;
    for (name, reason, class) in [
        ("web-0", "QuarantinedOwnerMismatch", "owner_mismatch"),
        ("web-1", "QuarantinedNameTaken", "name_taken"),
    ] {
        case.event("web", reason).await;
        // Noise about the object that does not change it must not say it again.
        for round in 0..3 {
            let noise = json!({"metadata": {"annotations": {"noise": round.to_string()}}});
            case.hub.merge(&INSTANCE, &case.hub_ns, name, noise).await;
        }
        // The watch is in order: with a later write-back projected, the noise has been read.
        let later = format!("later-{name}");
        write(&case, by_hand(&case, &later, "web")).await;
        projection(&case, &later).await;
        case.quiet().await;
        let events = case.events("web", reason).await;
        assert_eq!(events.len(), 1, "one Event {reason}");
        let lines: Vec<String> = gateway
            .log_since(mark)
            .into_iter()
            .filter(|line| line.contains(class) && line.contains(name) && line.contains(&case.hub_ns))
            .filter(|line| line.contains("\"WARN\"") || line.contains("\"ERROR\""))
            .collect();
        assert_eq!(lines.len(), 1, "one log line about {name}: {lines:#?}");
        let gauge = gateway.metric("fedgate_quarantined_objects", &[class]).await;
        assert!(
            (gauge - 1.0).abs() < f64::EPSILON,
            "the gauge for {class} is {gauge}"
        );
    }
    release(&case, "web-0").await;
    let unlabelled = |name: &str| {
        let mut of = by_hand(&case, name, "web");
        let labels = of["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(keys::WORKLOAD_DEPLOYMENT_NAME);
        of
    };
    // A name with an ordinal says the same as the label, which the projection gets.
    write(&case, unlabelled("web-2")).await;
    let named = projection(&case, "web-2").await;
    let label = &named["metadata"]["labels"][keys::WORKLOAD_DEPLOYMENT_NAME];
    assert_eq!(label, "web", "{named}");
    write(&case, unlabelled("healed")).await;
    case.project
        .holds(&INSTANCE, &case.ns, "healed", "is absent", seconds(2), |state| {
            state.is_none()
        })
        .await;
    let repaired = Instant::now();
    let name = json!({"metadata": {"labels": {keys::WORKLOAD_DEPLOYMENT_NAME: "web"}}});
    case.hub.merge(&INSTANCE, &case.hub_ns, "healed", name).await;
    projection(&case, "healed").await;
    assert!(
        repaired.elapsed() < BY_EVENT,
        "healed {:?} after the repair",
        repaired.elapsed()
    );
    case.delete(&INSTANCE, "web-1").await;
    wait_for("the gauges are back at 0", seconds(20), || async {
        let left = gateway
            .metric("fedgate_quarantined_objects", &["owner_mismatch"])
            .await
            + gateway
                .metric("fedgate_quarantined_objects", &["name_taken"])
                .await;
        (left < 0.5).then_some(())
    })
    .await;
}

async fn a42_projection_disturbed_by_hand(case: Case) {
    case.deploy("web", "DFW").await;
    let cell: &Cell = &case.dfw;
    cell.run(&case.hub_ns, "web", 0).await;
    let ready = |o: &Value| condition(o, "Ready").is_some_and(|c| c["reason"] == "SchedulingGatesPresent");
    let first = case
        .project
        .sees(&INSTANCE, &case.ns, "web-0", "has its status", seconds(30), ready)
        .await;
    case.delete(&INSTANCE, "web-0").await;
    case.project
        .sees(&INSTANCE, &case.ns, "web-0", "is there again", BY_EVENT, |o| {
            uid(o) != uid(&first) && ready(o)
        })
        .await;
    let edited = json!({"metadata": {"labels": {keys::WORKLOAD_NAME: "other"}},
        "spec": {"runtime": {"resources": {"instanceType": "other"}}}});
    case.merge(&INSTANCE, "web-0", edited).await;
    case.project
        .merge_status(&INSTANCE, &case.ns, "web-0", running())
        .await;
    case.project
        .sees(&INSTANCE, &case.ns, "web-0", "is restored", BY_EVENT, |o| {
            label(o, keys::WORKLOAD_NAME) == Some("storefront")
                && o["metadata"]["ownerReferences"][0]["name"] == "web"
                && o["spec"]["runtime"]["resources"]["instanceType"] == "datumcloud/d1-standard-2"
                && ready(o)
        })
        .await;
}
