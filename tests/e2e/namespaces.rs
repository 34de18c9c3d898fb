//! 17–23: the hub namespace and the cells it is at.

use crate::support::{
    Case,
    audit::between,
    deployment,
    gateway::{LINGER, RETENTION, UNUSED_SET},
    kinds::{CLUSTER_POLICY, DEPLOYMENT, INSTANCE, NAMESPACE},
    label,
    plane::BY_EVENT,
    seconds, trials, uid, wait_for,
};
use fedgate_api::{keys, names};
use futures::StreamExt;
use serde_json::json;
use tokio::time::Instant;

trials![
    #[core]
    a17_hub_namespace_is_complete_at_once,
    a18_namespace_only_where_it_is_used,
    #[core]
    a19_wider_city_set_before_the_copy,
    a20_city_left_after_linger_and_write_backs,
    a21_return_within_the_linger_writes_nothing,
    a22_project_namespace_gone,
    a23_identity_label_edited,
];

async fn a17_hub_namespace_is_complete_at_once(case: Case) {
    let mut states = case.hub.states(&NAMESPACE, "", &case.hub_ns);
    assert!(
        states.next().await.flatten().is_none(),
        "nothing is on the hub before the first deployment"
    );
    case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    let first = async {
        loop {
            if let Some(Some(found)) = states.next().await {
                break found;
            }
        }
    };
    let first = tokio::time::timeout(seconds(30), first)
        .await
        .expect("the hub namespace is made");
    let kube_system = case
        .project
        .get(&NAMESPACE, "", "kube-system")
        .await
        .expect("every plane has it");
    for (key, wanted) in [
        (keys::UPSTREAM_CLUSTER, Case::project_label().as_str()),
        (keys::UPSTREAM_NAMESPACE, case.ns.as_str()),
        (keys::SKIP_AUTO_PROPAGATION, "true"),
        (keys::PROJECT_UID, uid(&kube_system)),
        (keys::CITIES, "dfw"),
    ] {
        assert_eq!(
            label(&first, key),
            Some(wanted),
            "label {key} of the first version"
        );
    }
}

async fn a18_namespace_only_where_it_is_used(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    let at_cell = case
        .dfw
        .plane
        .get(&NAMESPACE, "", &case.hub_ns)
        .await
        .expect("the namespace is at DFW's cell");
    assert_eq!(
        label(&at_cell, keys::UPSTREAM_NAMESPACE),
        Some(case.ns.as_str()),
        "cells read their identity from it"
    );
    assert_eq!(
        label(&at_cell, keys::UPSTREAM_CLUSTER),
        Some(Case::project_label().as_str())
    );
    case.lhr
        .plane
        .holds(&NAMESPACE, "", &case.hub_ns, "is absent", seconds(3), |state| {
            state.is_none()
        })
        .await;
}

async fn a19_wider_city_set_before_the_copy(case: Case) {
    case.deploy("here", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "here").await;
    let before = case
        .dfw
        .plane
        .get(&NAMESPACE, "", &case.hub_ns)
        .await
        .expect("the namespace is at DFW's cell");
    case.quiet().await;
    case.deploy("there", "LHR").await;
    case.lhr.deployment(&case.hub_ns, "there").await;
    let hub = case.hub.exists(&NAMESPACE, "", &case.hub_ns, seconds(5)).await;
    assert_eq!(label(&hub, keys::CITIES), Some("dfw-lhr"));
    let writes = case.hub_requests();
    let at = |action: &str, name: &str| {
        let found = writes
            .iter()
            .find(|e| e.action() == action && e.object_ref.name == name && e.succeeded());
        found
            .unwrap_or_else(|| panic!("the audit log has no `{action} {name}`"))
            .clone()
    };
    let (widened, copied) = (
        at("patch namespaces", &case.hub_ns),
        at("create workloaddeployments", "there"),
    );
    assert!(
        widened.stage_timestamp <= copied.request_received_timestamp,
        "the set is wider before the copy is written"
    );
    let after = case
        .dfw
        .plane
        .get(&NAMESPACE, "", &case.hub_ns)
        .await
        .expect("the namespace stays at DFW's cell");
    assert_eq!(uid(&after), uid(&before), "at DFW it is the same namespace");
}

async fn a20_city_left_after_linger_and_write_backs(case: Case) {
    case.deploy("here", "DFW").await;
    case.deploy("there", "LHR").await;
    case.dfw.deployment(&case.hub_ns, "here").await;
    case.lhr.deployment(&case.hub_ns, "there").await;
    let lhr = case
        .lhr
        .plane
        .get(&NAMESPACE, "", &case.hub_ns)
        .await
        .expect("the namespace is at LHR's cell");
    // A write-back without owner outlives its deployment, as one of a slow cell would.
    let instance = case.dfw.instance(&case.hub_ns, "here", 0).await;
    let mut left_over = case.dfw.written_back(&instance).await;
    left_over["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    case.hub.create(&INSTANCE, &case.hub_ns, left_over).await;
    case.remove("here").await;
    case.dfw
        .plane
        .holds(
            &NAMESPACE,
            "",
            &case.hub_ns,
            "stays while a write-back is left",
            seconds(LINGER + 4),
            |state| state.is_some_and(|ns| ns["metadata"]["deletionTimestamp"].is_null()),
        )
        .await;
    case.hub.delete(&INSTANCE, &case.hub_ns, "here-0").await;
    case.dfw.namespace_gone(&case.hub_ns).await;
    // Then the linger alone keeps the city.
    let requests = case.hub_requests_of_all();
    let at = |action: &str, name: &str| {
        let found = requests
            .iter()
            .rfind(|e| e.action() == action && e.object_ref.name == name && e.succeeded());
        found.unwrap_or_else(|| panic!("the audit log has no `{action} {name}`"))
    };
    let (last, narrowed) = (
        at("delete instances", "here-0"),
        at("patch namespaces", &case.hub_ns),
    );
    let lingered = between(last, narrowed);
    assert!(
        lingered >= seconds(LINGER) && lingered < seconds(LINGER) + 2 * BY_EVENT,
        "the city is left {LINGER} s after its last write-back, not after {lingered:?}"
    );
    let hub = case.hub.exists(&NAMESPACE, "", &case.hub_ns, seconds(5)).await;
    assert_eq!(label(&hub, keys::CITIES), Some("lhr"));
    let same = |state: Option<&serde_json::Value>| state.is_some_and(|ns| uid(ns) == uid(&lhr));
    case.lhr
        .plane
        .holds(&NAMESPACE, "", &case.hub_ns, "is the same", seconds(2), same)
        .await;
    case.lhr.deployment(&case.hub_ns, "there").await;
}

async fn a21_return_within_the_linger_writes_nothing(case: Case) {
    case.deploy("there", "LHR").await;
    case.deploy("here", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "here").await;
    case.lhr.deployment(&case.hub_ns, "there").await;
    case.quiet().await;
    let count = case.count();
    case.delete(&DEPLOYMENT, "here").await;
    case.hub
        .gone(&DEPLOYMENT, &case.hub_ns, "here", seconds(60))
        .await;
    let left = Instant::now();
    case.create(&DEPLOYMENT, deployment("again", "DFW")).await;
    assert!(
        left.elapsed() < seconds(LINGER - 1),
        "this machine is too busy: the return took {:?}",
        left.elapsed()
    );
    let both = |state: Option<&serde_json::Value>| {
        state.is_some_and(|ns| label(ns, keys::CITIES) == Some("dfw-lhr"))
    };
    case.hub
        .holds(
            &NAMESPACE,
            "",
            &case.hub_ns,
            "has both cities",
            seconds(LINGER + 2),
            both,
        )
        .await;
    case.dfw.deployment(&case.hub_ns, "again").await;
    let patched: Vec<String> = case
        .writes(&count)
        .into_iter()
        .filter(|w| w == "hub: patch namespaces")
        .collect();
    assert!(patched.is_empty(), "the hub namespace was patched: {patched:?}");
}

async fn a22_project_namespace_gone(case: Case) {
    let nowhere = case.unready_city().await;
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.deploy("other", &nowhere).await;
    let codes = ["DFW", nowhere.as_str()].map(|code| names::CityCode::parse(code).unwrap());
    let set = names::city_set(&codes.into()).unwrap();
    let policy = names::city_set_policy(&set);
    case.hub.exists(&CLUSTER_POLICY, "", &policy, seconds(30)).await;
    case.project.delete(&NAMESPACE, "", &case.ns).await;
    case.project.gone(&NAMESPACE, "", &case.ns, seconds(120)).await;
    case.hub
        .gone(&NAMESPACE, "", &case.hub_ns, seconds(RETENTION + 240))
        .await;
    case.kept_for_its_retention();
    case.dfw.namespace_gone(&case.hub_ns).await;
    case.lhr.namespace_gone(&case.hub_ns).await;
    case.hub
        .gone(&CLUSTER_POLICY, "", &policy, seconds(UNUSED_SET + 60))
        .await;
}

async fn a23_identity_label_edited(case: Case) {
    case.deploy("web", "DFW").await;
    case.quiet().await;
    // No other test edits a hub namespace while this one runs.
    let restored = || async {
        let gateway = &case.suite.gateway;
        gateway
            .metric("fedgate_identity_rejections_total", &["namespace_labels_edited"])
            .await
    };
    let before = restored().await;
    for (key, forged) in [
        (keys::UPSTREAM_CLUSTER, json!("cluster-beta")),
        (keys::UPSTREAM_NAMESPACE, json!(null)),
        (keys::PROJECT_UID, json!("00000000-0000-4000-8000-00000000dead")),
        (keys::SKIP_AUTO_PROPAGATION, json!("false")),
    ] {
        let was = case.hub.exists(&NAMESPACE, "", &case.hub_ns, seconds(5)).await;
        case.hub
            .merge(
                &NAMESPACE,
                "",
                &case.hub_ns,
                json!({"metadata": {"labels": {key: forged}}}),
            )
            .await;
        let whole = |ns: &serde_json::Value| label(ns, key) == label(&was, key);
        case.hub
            .sees(
                &NAMESPACE,
                "",
                &case.hub_ns,
                &format!("has its {key} again"),
                BY_EVENT,
                whole,
            )
            .await;
    }
    wait_for("the rejections are counted", seconds(10), || async {
        (restored().await >= before + 4.0).then_some(())
    })
    .await;
}
