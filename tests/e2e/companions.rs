//! 56–64: `ConfigMap`s and Secrets travel with the deployments that refer to them.

use crate::support::{
    Case, Cell, annotation, condition, deployment_with_data,
    gateway::{ORPHAN, SWEEP},
    kinds::{BINDING, CONFIG_MAP, DEPLOYMENT, Kind, LEASE, SECRET},
    label, lone_trials, seconds, trials, uid, wait_for,
};
use fedgate::api::keys;
use serde_json::{Value, json};
use std::time::Duration;

trials![
    a56_companions_reach_the_cell,
    a57_companions_are_shared,
    a58_dropped_reference_is_released,
    a59_last_deployment_takes_companions_along,
    a60_orphaned_companion,
    a61_kind_of_a_reference_changes,
    a62_missing_source_heals_by_event,
    a63_refused_sources,
];

lone_trials![a64_crashes_leak_no_entry];

const PULL: &str = "kubernetes.io/dockerconfigjson";

async fn sources(case: &Case) {
    case.config_map("settings", &json!({"a": "1", "b": "two"})).await;
    case.secret("keys", "Opaque", &json!({"password": "p"})).await;
    case.secret("pull", PULL, &json!({".dockerconfigjson": "{\"auths\":{}}"}))
        .await;
}

async fn with_data(case: &Case, name: &str, city: &str, pull: &[&str]) {
    case.create(
        &DEPLOYMENT,
        deployment_with_data(name, city, Some("settings"), Some("keys"), pull),
    )
    .await;
}

async fn companion(case: &Case, kind: &Kind, name: &str) -> Value {
    case.hub.exists(kind, &case.hub_ns, name, seconds(60)).await
}

async fn at_cell(case: &Case, cell: &Cell, kind: &Kind, name: &str) -> Value {
    cell.plane.exists(kind, &case.hub_ns, name, seconds(90)).await
}

fn referenced_by(object: &Value) -> Vec<String> {
    annotation(object, keys::REFERENCED_BY)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Waits until the companion's list of deployments is exactly this.
async fn is_referenced_by(case: &Case, kind: &Kind, name: &str, deployments: &[&str]) -> Value {
    let wanted: Vec<String> = deployments.iter().map(|d| format!("{}/{d}", case.ns)).collect();
    let what = format!("is referenced by {wanted:?}");
    case.hub
        .sees(kind, &case.hub_ns, name, &what, seconds(60), |o| {
            referenced_by(o) == wanted
        })
        .await
}

async fn a56_companions_reach_the_cell(case: Case) {
    sources(&case).await;
    with_data(&case, "web", "DFW", &[]).await;
    for (kind, name) in [(&CONFIG_MAP, "settings"), (&SECRET, "keys")] {
        let there = companion(&case, kind, name).await;
        assert_eq!(label(&there, keys::REFERENCED_DATA), Some("true"));
        let source = case
            .project
            .get(kind, &case.ns, name)
            .await
            .expect("the source is there");
        assert!(
            label(&source, keys::REFERENCED_DATA).is_none(),
            "the source is no companion"
        );
        assert_eq!(there["data"], source["data"]);
        let delivered = at_cell(&case, &case.dfw, kind, name).await;
        assert_eq!(delivered["data"], source["data"]);
    }
    let ready = case
        .condition("web", "ReferencedDataReady", "True", "Ready")
        .await;
    assert_eq!(ready["observedGeneration"], 1);
    let delivered = case.dfw.deployment(&case.hub_ns, "web").await;
    assert_eq!(
        annotation(&delivered, keys::EXPECTED_REFERENCED_DATA),
        Some(r#"["ConfigMap/settings","Secret/keys"]"#)
    );
    // A changed source follows.
    case.merge(&CONFIG_MAP, "settings", json!({"data": {"a": "2"}}))
        .await;
    case.dfw
        .plane
        .sees(
            &CONFIG_MAP,
            &case.hub_ns,
            "settings",
            "has the change",
            seconds(60),
            |o| o["data"]["a"] == "2",
        )
        .await;
}

async fn a57_companions_are_shared(case: Case) {
    sources(&case).await;
    with_data(&case, "here", "DFW", &["pull"]).await;
    with_data(&case, "there", "LHR", &["pull"]).await;
    for (kind, name) in [(&CONFIG_MAP, "settings"), (&SECRET, "keys"), (&SECRET, "pull")] {
        is_referenced_by(&case, kind, name, &["here", "there"]).await;
        let source = case
            .project
            .get(kind, &case.ns, name)
            .await
            .expect("the source is there");
        for cell in [&case.dfw, &case.lhr] {
            let delivered = at_cell(&case, cell, kind, name).await;
            assert_eq!(
                (&delivered["data"], &delivered["type"]),
                (&source["data"], &source["type"]),
                "{name} at {}",
                cell.name
            );
        }
        let there = companion(&case, kind, name).await;
        assert_eq!(
            annotation(&there, keys::CLAIM_NAME),
            None,
            "{name} is bound through its deployments alone"
        );
    }
    let labelled = format!("{}=true", keys::REFERENCED_DATA);
    assert_eq!(case.hub.list(&CONFIG_MAP, &case.hub_ns, &labelled).await.len(), 1);
    assert_eq!(case.hub.list(&SECRET, &case.hub_ns, &labelled).await.len(), 2);
}

async fn a58_dropped_reference_is_released(case: Case) {
    sources(&case).await;
    with_data(&case, "web", "DFW", &["pull"]).await;
    at_cell(&case, &case.dfw, &SECRET, "pull").await;
    let dropped =
        json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"imagePullSecrets": null}}}}}});
    case.merge(&DEPLOYMENT, "web", dropped).await;
    case.hub.gone(&SECRET, &case.hub_ns, "pull", seconds(90)).await;
    case.dfw
        .plane
        .gone(&SECRET, &case.hub_ns, "pull", seconds(90))
        .await;
    is_referenced_by(&case, &CONFIG_MAP, "settings", &["web"]).await;
    assert!(
        case.dfw
            .plane
            .get(&CONFIG_MAP, &case.hub_ns, "settings")
            .await
            .is_some()
    );
}

async fn a59_last_deployment_takes_companions_along(case: Case) {
    sources(&case).await;
    with_data(&case, "web", "DFW", &[]).await;
    for (kind, name) in [(&CONFIG_MAP, "settings"), (&SECRET, "keys")] {
        at_cell(&case, &case.dfw, kind, name).await;
    }
    case.remove("web").await;
    let bindings = [
        (&CONFIG_MAP, "settings", "settings-configmap"),
        (&SECRET, "keys", "keys-secret"),
    ];
    for (kind, name, binding) in bindings {
        case.hub.gone(kind, &case.hub_ns, name, seconds(90)).await;
        case.hub.gone(&BINDING, &case.hub_ns, binding, seconds(90)).await;
        case.dfw.plane.gone(kind, &case.hub_ns, name, seconds(90)).await;
    }
    for (kind, name, _) in bindings {
        case.hub
            .holds(kind, &case.hub_ns, name, "is gone", seconds(5), |state| {
                state.is_none()
            })
            .await;
        assert!(
            case.dfw.plane.get(kind, &case.hub_ns, name).await.is_none(),
            "{name} came back at the cell"
        );
        assert!(
            case.project.get(kind, &case.ns, name).await.is_some(),
            "the source {name} is the tenant's"
        );
    }
}

async fn a60_orphaned_companion(case: Case) {
    case.deploy("web", "DFW").await;
    let ghost = json!({
        "metadata": {
            "name": "ghosts",
            "labels": {keys::REFERENCED_DATA: "true"},
            "annotations": {keys::REFERENCED_BY: format!("[\"{}/never-was\"]", case.ns)},
        },
        "data": {"a": "1"},
    });
    case.hub.create(&CONFIG_MAP, &case.hub_ns, ghost).await;
    let plain = json!({"metadata": {"name": "plain"}, "data": {"a": "1"}});
    case.hub.create(&CONFIG_MAP, &case.hub_ns, plain).await;
    case.hub
        .gone(&CONFIG_MAP, &case.hub_ns, "ghosts", seconds(SWEEP + ORPHAN + 60))
        .await;
    assert!(
        case.hub.get(&CONFIG_MAP, &case.hub_ns, "plain").await.is_some(),
        "without the label it is nobody's"
    );
}

async fn a61_kind_of_a_reference_changes(case: Case) {
    case.config_map("x", &json!({"a": "1"})).await;
    case.secret("x", "Opaque", &json!({"a": "1"})).await;
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("x"), None, &[]),
    )
    .await;
    is_referenced_by(&case, &CONFIG_MAP, "x", &["web"]).await;
    let other = deployment_with_data("web", "DFW", None, Some("x"), &[]);
    case.merge(&DEPLOYMENT, "web", json!({"spec": other["spec"]}))
        .await;
    is_referenced_by(&case, &SECRET, "x", &["web"]).await;
    case.hub.gone(&CONFIG_MAP, &case.hub_ns, "x", seconds(90)).await;
    at_cell(&case, &case.dfw, &SECRET, "x").await;
    case.dfw
        .plane
        .gone(&CONFIG_MAP, &case.hub_ns, "x", seconds(90))
        .await;
}

async fn a62_missing_source_heals_by_event(case: Case) {
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("late"), None, &[]),
    )
    .await;
    let missing = case
        .condition("web", "ReferencedDataReady", "False", "SourceNotFound")
        .await;
    assert!(
        missing["message"]
            .as_str()
            .is_some_and(|text| text.contains("late")),
        "the message names it: {missing}"
    );
    case.dfw
        .sees(&case.hub_ns, "web", "carries the error", |o| {
            annotation(o, keys::REFERENCED_DATA_ERROR).is_some_and(|text| text.contains("SourceNotFound"))
        })
        .await;
    case.config_map("late", &json!({"a": "1"})).await;
    case.condition("web", "ReferencedDataReady", "True", "Ready")
        .await;
    at_cell(&case, &case.dfw, &CONFIG_MAP, "late").await;
    case.dfw
        .sees(&case.hub_ns, "web", "has lost the error", |o| {
            annotation(o, keys::REFERENCED_DATA_ERROR).is_none()
                && annotation(o, keys::EXPECTED_REFERENCED_DATA) == Some(r#"["ConfigMap/late"]"#)
        })
        .await;
}

async fn a63_refused_sources(case: Case) {
    let long = "n".repeat(244);
    case.config_map("big", &json!({"a": "x".repeat(257 * 1024)}))
        .await;
    case.config_map(&long, &json!({"a": "1"})).await;
    for part in 0..5 {
        case.config_map(&format!("part-{part}"), &json!({"a": "x".repeat(220 * 1024)}))
            .await;
    }
    case.create(
        &DEPLOYMENT,
        deployment_with_data("one-too-big", "DFW", Some("big"), None, &[]),
    )
    .await;
    case.create(
        &DEPLOYMENT,
        deployment_with_data("name-too-long", "DFW", Some(&long), None, &[]),
    )
    .await;
    let mut many = deployment_with_data("all-too-big", "DFW", Some("part-0"), None, &[]);
    let template = &mut many["spec"]["template"]["spec"];
    template["volumes"] = (0..5)
        .map(|n| json!({"name": format!("v{n}"), "configMap": {"name": format!("part-{n}")}}))
        .collect();
    template["runtime"]["sandbox"]["containers"][0]["volumeAttachments"] = (0..5)
        .map(|n| json!({"name": format!("v{n}"), "mountPath": format!("/v{n}")}))
        .collect();
    case.create(&DEPLOYMENT, many).await;
    case.condition("one-too-big", "ReferencedDataReady", "False", "SourceTooLarge")
        .await;
    case.condition("all-too-big", "ReferencedDataReady", "False", "SourceTooLarge")
        .await;
    let refused = case
        .condition(
            "name-too-long",
            "ReferencedDataReady",
            "False",
            "SourceNameTooLong",
        )
        .await;
    assert!(
        condition(
            &json!({"status": {"conditions": [refused]}}),
            "ReferencedDataReady"
        )
        .is_some()
    );
    let labelled = format!("{}=true", keys::REFERENCED_DATA);
    assert!(
        case.hub
            .list(&CONFIG_MAP, &case.hub_ns, &labelled)
            .await
            .is_empty(),
        "nothing refused becomes a companion"
    );
}

/// Kills the gateway this long after each step, from before its first request to after its last.
const CRASHES: [u64; 6] = [0, 15, 40, 80, 150, 300];

async fn crash_after(case: &Case, pause: u64) {
    tokio::time::sleep(Duration::from_millis(pause)).await;
    case.suite.gateway.kill().await;
    // What a dead holder leaves would be waited for; 83 is about that.
    case.hub.delete(&LEASE, "fedgate-system", "fedgate-gateway").await;
    case.suite.gateway.start().await;
}

async fn a64_crashes_leak_no_entry(case: Case) {
    sources(&case).await;
    with_data(&case, "stays", "DFW", &[]).await;
    is_referenced_by(&case, &CONFIG_MAP, "settings", &["stays"]).await;
    for (round, pause) in CRASHES.into_iter().enumerate() {
        let name = format!("web-{round}");
        // Creation, in the city that is there and in a new one.
        with_data(
            &case,
            &name,
            if round % 2 == 0 { "DFW" } else { "LHR" },
            &["pull"],
        )
        .await;
        crash_after(&case, pause).await;
        is_referenced_by(&case, &SECRET, "pull", &[&name]).await;
        is_referenced_by(&case, &CONFIG_MAP, "settings", &["stays", &name]).await;
        // Change: the pull secret is dropped.
        let dropped =
            json!({"spec": {"template": {"spec": {"runtime": {"sandbox": {"imagePullSecrets": null}}}}}});
        case.merge(&DEPLOYMENT, &name, dropped).await;
        crash_after(&case, pause).await;
        case.hub.gone(&SECRET, &case.hub_ns, "pull", seconds(90)).await;
        // Release.
        case.delete(&DEPLOYMENT, &name).await;
        crash_after(&case, pause).await;
        case.project
            .gone(&DEPLOYMENT, &case.ns, &name, seconds(120))
            .await;
        let kept = is_referenced_by(&case, &CONFIG_MAP, "settings", &["stays"]).await;
        assert!(!uid(&kept).is_empty());
    }
    wait_for(
        "only the live deployment's companions are left",
        seconds(60),
        || async {
            let labelled = format!("{}=true", keys::REFERENCED_DATA);
            let left = case.hub.list(&SECRET, &case.hub_ns, &labelled).await.len()
                + case.hub.list(&CONFIG_MAP, &case.hub_ns, &labelled).await.len();
            (left == 2).then_some(())
        },
    )
    .await;
}
