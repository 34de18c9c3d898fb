//! 56–64: `ConfigMap`s and Secrets travel with the deployments that refer to them.

use crate::support::{
    Case, Cell, annotation,
    case::Count,
    deployment_with_data,
    gate::Gate,
    gateway::ORPHAN,
    kinds::{BINDING, CONFIG_MAP, DEPLOYMENT, Kind, LEASE, SECRET},
    label, lone_trials,
    plane::BY_EVENT,
    seconds, trials, wait_for,
};
use fedgate_api::keys;
use futures::future::join_all;
use serde_json::{Value, json};

trials![
    #[core]
    a56_companions_reach_the_cell,
    #[core]
    a57_companions_are_shared,
    #[core]
    a58_dropped_reference_is_released,
    a59_last_deployment_takes_companions_along,
    #[core]
    a60_orphaned_companion,
    a61_kind_of_a_reference_changes,
    a62_missing_source_heals_by_event,
    #[core]
    a63_refused_sources,
    a_name_that_others_have_on_the_hub,
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
    let places = [&case.hub, &case.dfw.plane];
    let away = places.iter().flat_map(|plane| {
        bindings.iter().map(|(kind, name, _)| {
            plane.holds(kind, &case.hub_ns, name, "is gone", seconds(30), |state| {
                state.is_none()
            })
        })
    });
    join_all(away).await;
    for (kind, name, _) in bindings {
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
        .gone(&CONFIG_MAP, &case.hub_ns, "ghosts", seconds(ORPHAN) + BY_EVENT)
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
    let changed = async {
        is_referenced_by(&case, &SECRET, "x", &["web"]).await;
        case.hub.gone(&CONFIG_MAP, &case.hub_ns, "x", BY_EVENT).await;
    };
    tokio::time::timeout(BY_EVENT, changed)
        .await
        .expect("the event of the change brings the Secret and releases the ConfigMap");
    at_cell(&case, &case.dfw, &SECRET, "x").await;
    case.dfw
        .plane
        .gone(&CONFIG_MAP, &case.hub_ns, "x", seconds(90))
        .await;
}

async fn a62_missing_source_heals_by_event(case: Case) {
    let sources: [(&str, &str, &Kind); 2] = [("web", "ConfigMap", &CONFIG_MAP), ("safe", "Secret", &SECRET)];
    case.create(
        &DEPLOYMENT,
        deployment_with_data("web", "DFW", Some("late"), None, &[]),
    )
    .await;
    case.create(
        &DEPLOYMENT,
        deployment_with_data("safe", "DFW", None, Some("late"), &[]),
    )
    .await;
    for (name, source, _) in sources {
        let missing = case
            .condition(name, "ReferencedDataReady", "False", "SourceNotFound")
            .await;
        let message = missing["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("late") && message.contains(source),
            "the message names it: {missing}"
        );
        case.dfw
            .sees(&case.hub_ns, name, "carries the error", |o| {
                annotation(o, keys::REFERENCED_DATA_ERROR).is_some_and(|text| text.contains("SourceNotFound"))
            })
            .await;
    }
    for (name, source, kind) in sources {
        let data = if source == "Secret" { "stringData" } else { "data" };
        case.create(kind, json!({"metadata": {"name": "late"}, data: {"a": "1"}}))
            .await;
        let healed = async {
            case.condition(name, "ReferencedDataReady", "True", "Ready").await;
            companion(&case, kind, "late").await;
        };
        tokio::time::timeout(BY_EVENT, healed)
            .await
            .unwrap_or_else(|_| panic!("{name} is ready by the event of its {source}"));
        at_cell(&case, &case.dfw, kind, "late").await;
        let expected = format!("[\"{source}/late\"]");
        case.dfw
            .sees(&case.hub_ns, name, "has lost the error", |o| {
                annotation(o, keys::REFERENCED_DATA_ERROR).is_none()
                    && annotation(o, keys::EXPECTED_REFERENCED_DATA) == Some(&expected)
            })
            .await;
    }
}

async fn a63_refused_sources(case: Case) {
    let long = "n".repeat(244);
    case.config_map("big", &json!({"a": "x".repeat(257 * 1024)}))
        .await;
    case.secret("big", "Opaque", &json!({"a": "x".repeat(257 * 1024)}))
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
        deployment_with_data("secret-too-big", "DFW", None, Some("big"), &[]),
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
    for (name, reason, named) in [
        ("one-too-big", "SourceTooLarge", "ConfigMap big"),
        ("secret-too-big", "SourceTooLarge", "Secret big"),
        ("all-too-big", "SourceTooLarge", ""),
        ("name-too-long", "SourceNameTooLong", &*long),
    ] {
        let refused = case.condition(name, "ReferencedDataReady", "False", reason).await;
        assert!(
            refused["message"]
                .as_str()
                .is_some_and(|text| text.contains(named)),
            "the message names the source: {refused}"
        );
    }
    let labelled = format!("{}=true", keys::REFERENCED_DATA);
    for kind in [&CONFIG_MAP, &SECRET] {
        let made = case.hub.list(kind, &case.hub_ns, &labelled).await;
        assert!(made.is_empty(), "nothing refused becomes a companion: {made:?}");
    }
}

/// Lets `writes` of what the gateway does next pass and kills it before the one after; whether there was one after, or
/// all was done first. The gateway runs again then.
async fn crash_after(
    case: &Case,
    gate: &Gate,
    writes: usize,
    since: &Count,
    done: impl Future<Output = ()>,
) -> bool {
    let crash = tokio::select! {
        () = done => false,
        () = gate.holds() => true,
    };
    if crash {
        // What was let through is carried out before the crash, so that it falls between two requests.
        let what = format!("the {writes} writes that may pass are answered");
        wait_for(&what, seconds(10), || async {
            (case
                .writes(since)
                .iter()
                .filter(|w| !w.ends_with("/status"))
                .count()
                >= writes)
                .then_some(())
        })
        .await;
        case.suite.gateway.kill().await;
    }
    gate.open();
    if crash {
        // What a dead holder leaves would be waited for; 83 is about that.
        case.hub.delete(&LEASE, "fedgate-system", "fedgate-gateway").await;
        case.suite.gateway.start().await;
    }
    crash
}

/// What a crash may come between, each until it is done.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    /// The pull secret is dropped.
    Change,
    Release,
}

impl Step {
    async fn begin(self, case: &Case, name: &str) {
        match self {
            Self::Create => with_data(case, name, "DFW", &["pull"]).await,
            Self::Change => {
                let runtime = json!({"sandbox": {"imagePullSecrets": null}});
                let dropped = json!({"spec": {"template": {"spec": {"runtime": runtime}}}});
                case.merge(&DEPLOYMENT, name, dropped).await;
            }
            Self::Release => case.delete(&DEPLOYMENT, name).await,
        }
    }

    /// Waits until all that the step asks for is there, and no entry too many or too few.
    async fn done(self, case: &Case, name: &str) {
        let expects =
            |list: &'static str| move |o: &Value| annotation(o, keys::EXPECTED_REFERENCED_DATA) == Some(list);
        let with = ["stays", name];
        let users: &[&str] = match self {
            Self::Create => {
                is_referenced_by(case, &SECRET, "pull", &[name]).await;
                let all = r#"["ConfigMap/settings","Secret/keys","Secret/pull"]"#;
                case.copy_sees(name, "expects all", expects(all)).await;
                &with
            }
            Self::Change => {
                case.hub.gone(&SECRET, &case.hub_ns, "pull", seconds(90)).await;
                let fewer = r#"["ConfigMap/settings","Secret/keys"]"#;
                case.copy_sees(name, "expects less", expects(fewer)).await;
                &with
            }
            Self::Release => {
                case.project.gone(&DEPLOYMENT, &case.ns, name, seconds(120)).await;
                &with[..1]
            }
        };
        is_referenced_by(case, &CONFIG_MAP, "settings", users).await;
        is_referenced_by(case, &SECRET, "keys", users).await;
    }
}

async fn a_name_that_others_have_on_the_hub(case: Case) {
    case.deploy("first", "DFW").await;
    let mut foreign = Vec::new();
    for (kind, name) in [(&CONFIG_MAP, "settings"), (&SECRET, "keys")] {
        let theirs = json!({"metadata": {"name": name}});
        foreign.push((kind, case.hub.create(kind, &case.hub_ns, theirs).await));
    }
    sources(&case).await;
    with_data(&case, "web", "DFW", &[]).await;
    case.condition("web", "Federated", "False", "HubNameTaken").await;
    case.quiet().await;
    for (kind, theirs) in &foreign {
        let name = theirs["metadata"]["name"].as_str().unwrap();
        let after = case.hub.exists(kind, &case.hub_ns, name, seconds(5)).await;
        assert_eq!(after["metadata"], theirs["metadata"], "it is not ours to touch");
        case.hub.delete(kind, &case.hub_ns, name).await;
    }
}

async fn a64_crashes_leak_no_entry(case: Case) {
    sources(&case).await;
    with_data(&case, "stays", "DFW", &[]).await;
    is_referenced_by(&case, &CONFIG_MAP, "settings", &["stays"]).await;
    case.copy("stays").await;
    case.quiet().await;
    let gate = Gate::new(&[(&case.project, &case.ns), (&case.hub, &case.hub_ns)]).await;
    // Patch of the deployment, three companions, copy; patch, copy, companion; copy, two companions, finalizer.
    let steps = [(Step::Create, 5), (Step::Change, 3), (Step::Release, 4)];
    for writes in 0..=5 {
        let name = format!("web-{writes}");
        for (step, requests) in steps {
            let since = case.count();
            gate.admit(writes);
            step.begin(&case, &name).await;
            let crashed = crash_after(&case, &gate, writes, &since, step.done(&case, &name)).await;
            step.done(&case, &name).await;
            let asked = case.writes(&since);
            assert_eq!(
                crashed,
                writes < requests,
                "{step:?} is {requests} requests, and a crash follows each but the last; there were {asked:?}"
            );
        }
    }
    gate.remove().await;
    let labelled = format!("{}=true", keys::REFERENCED_DATA);
    let left = case.hub.list(&SECRET, &case.hub_ns, &labelled).await.len()
        + case.hub.list(&CONFIG_MAP, &case.hub_ns, &labelled).await.len();
    assert_eq!(left, 2, "only the live deployment's companions are left");
}
