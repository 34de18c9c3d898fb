//! 68, 69, 72–75: projects come, go, hang, and change their credentials.

use crate::support::{
    Case, credentials, deployment,
    gateway::{Projects, RETENTION},
    hub_namespace,
    kinds::{DEPLOYMENT, NAMESPACE, SECRET},
    lone_trials, seconds, suite, trials, uid, wait_for,
};
use fedgate::api::keys;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// Namespace of the gateway's own things on the hub.
const SYSTEM: &str = "fedgate-system";

trials![a72_namespace_recreated, a73_kubeconfig_with_exec_is_refused];

lone_trials![
    a68_project_added_late,
    a69_project_that_never_answers,
    a74_removed_file_leaves_the_hub,
    a75_rotation_under_load,
    projects_from_secrets,
];

/// The kubeconfig file of project `beta` in the gateway's folder.
fn beta_file(case: &Case) -> std::path::PathBuf {
    case.suite
        .gateway
        .projects()
        .join(format!("{}.yaml", suite::BETA_KEY))
}

/// A namespace of the test's name in `beta`, and its hub namespace.
async fn in_beta(case: &Case) -> String {
    let namespace = case
        .suite
        .beta
        .create(&NAMESPACE, "", json!({"metadata": {"name": case.ns}}))
        .await;
    hub_namespace(&namespace)
}

async fn leave_beta(case: &Case) {
    case.suite.beta.delete(&NAMESPACE, "", &case.ns).await;
    case.suite.beta.gone(&NAMESPACE, "", &case.ns, seconds(90)).await;
}

async fn a68_project_added_late(case: Case) {
    let hub_ns = in_beta(&case).await;
    case.deploy("web", "DFW").await;
    case.quiet().await;
    let file = beta_file(&case);
    let text = std::fs::read_to_string(&file).expect("beta's kubeconfig is in the folder");
    std::fs::remove_file(&file).expect("take beta away");
    tokio::time::sleep(seconds(1)).await;
    case.suite
        .beta
        .create(&DEPLOYMENT, &case.ns, deployment("web", "DFW"))
        .await;
    let absent = |state: Option<&serde_json::Value>| state.is_none();
    case.hub
        .holds(
            &DEPLOYMENT,
            &hub_ns,
            "web",
            "is absent while beta is away",
            seconds(3),
            absent,
        )
        .await;
    credentials::replace(&file, &text);
    case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    assert!(
        case.suite.gateway.planes().await.contains(suite::BETA_KEY),
        "/debug/planes shows beta"
    );
    // Taken away again, it is left alone; the other project goes on.
    std::fs::remove_file(&file).expect("take beta away");
    tokio::time::sleep(seconds(1)).await;
    let scaled = json!({"spec": {"scaleSettings": {"minReplicas": 4}}});
    case.suite
        .beta
        .merge(&DEPLOYMENT, &case.ns, "web", scaled.clone())
        .await;
    case.merge(&DEPLOYMENT, "web", scaled).await;
    let arrived = |o: &serde_json::Value| o["spec"]["scaleSettings"]["minReplicas"] == 4;
    case.copy_sees("web", "has the new scale", arrived).await;
    case.hub
        .holds(&DEPLOYMENT, &hub_ns, "web", "is as it was", seconds(2), |o| {
            !o.is_some_and(arrived)
        })
        .await;
    credentials::replace(&file, &text);
    case.hub
        .sees(
            &DEPLOYMENT,
            &hub_ns,
            "web",
            "has the new scale",
            seconds(30),
            arrived,
        )
        .await;
    leave_beta(&case).await;
}

async fn a69_project_that_never_answers(case: Case) {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("bind a free port");
    let address = silent.local_addr().expect("a bound listener has an address");
    let holder = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
        }
    });
    let text = std::fs::read_to_string(beta_file(&case)).expect("beta's kubeconfig is in the folder");
    let mut config: serde_json::Value = serde_saphyr::from_str(&text).expect("a kubeconfig is YAML");
    config["clusters"][0]["cluster"]["server"] = json!(format!("https://{address}"));
    let file = case.suite.gateway.projects().join("silent.yaml");
    credentials::replace(
        &file,
        &serde_saphyr::to_string(&config).expect("a kubeconfig prints"),
    );
    tokio::time::sleep(seconds(2)).await;
    let quick = async |name: &str| {
        let began = Instant::now();
        case.deploy(name, "DFW").await;
        assert!(
            began.elapsed() < seconds(5),
            "{name} took {:?} beside a silent project",
            began.elapsed()
        );
    };
    quick("beside").await;
    // It never makes the process unready either.
    let began = Instant::now();
    case.suite.gateway.restart().await;
    assert!(began.elapsed() < seconds(60), "ready after {:?}", began.elapsed());
    quick("after-restart").await;
    std::fs::remove_file(&file).expect("take the silent project away");
    holder.abort();
}

async fn a72_namespace_recreated(case: Case) {
    case.deploy("web", "DFW").await;
    case.dfw.deployment(&case.hub_ns, "web").await;
    case.project.delete(&NAMESPACE, "", &case.ns).await;
    case.project.gone(&NAMESPACE, "", &case.ns, seconds(120)).await;
    let again = case
        .project
        .create(&NAMESPACE, "", json!({"metadata": {"name": case.ns}}))
        .await;
    let hub_ns = hub_namespace(&again);
    assert_ne!(hub_ns, case.hub_ns);
    let made = case.create(&DEPLOYMENT, deployment("web", "DFW")).await;
    case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    case.dfw.deployment(&hub_ns, "web").await;
    case.hub.gone(&DEPLOYMENT, &case.hub_ns, "web", seconds(60)).await;
    case.hub
        .gone(&NAMESPACE, "", &case.hub_ns, seconds(RETENTION + 60))
        .await;
    case.dfw.namespace_gone(&case.hub_ns).await;
    let live = case
        .project
        .get(&DEPLOYMENT, &case.ns, "web")
        .await
        .expect("the new deployment lives");
    assert_eq!(uid(&live), uid(&made));
    assert!(case.hub.get(&NAMESPACE, "", &hub_ns).await.is_some());
}

async fn a73_kubeconfig_with_exec_is_refused(case: Case) {
    let text = std::fs::read_to_string(beta_file(&case)).expect("beta's kubeconfig is in the folder");
    let mut config: serde_json::Value = serde_saphyr::from_str(&text).expect("a kubeconfig is YAML");
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never",
    }});
    let mark = case.suite.gateway.log_mark();
    let file = case.suite.gateway.projects().join("plugin.yaml");
    credentials::replace(
        &file,
        &serde_saphyr::to_string(&config).expect("a kubeconfig prints"),
    );
    let line = wait_for("the refusal is logged", seconds(20), || async {
        case.suite
            .gateway
            .log_since(mark)
            .into_iter()
            .find(|line| line.contains("plugin") && line.contains("exec"))
    })
    .await;
    std::fs::remove_file(&file).expect("take the file away");
    assert!(
        line.contains("WARN") || line.contains("ERROR"),
        "the refusal stands out: {line}"
    );
    case.deploy("web", "DFW").await;
}

async fn a74_removed_file_leaves_the_hub(case: Case) {
    let hub_ns = in_beta(&case).await;
    case.suite
        .beta
        .create(&DEPLOYMENT, &case.ns, deployment("web", "DFW"))
        .await;
    let copy = case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    let file = beta_file(&case);
    let text = std::fs::read_to_string(&file).expect("beta's kubeconfig is in the folder");
    std::fs::remove_file(&file).expect("take beta away");
    // Longer than orphan time, sweep and retention together.
    let same = |state: Option<&serde_json::Value>| {
        state.is_some_and(|o| uid(o) == uid(&copy) && o["metadata"]["deletionTimestamp"].is_null())
    };
    case.hub
        .holds(
            &DEPLOYMENT,
            &hub_ns,
            "web",
            "is untouched",
            seconds(RETENTION + 10),
            same,
        )
        .await;
    assert!(case.hub.get(&NAMESPACE, "", &hub_ns).await.is_some());
    credentials::replace(&file, &text);
    case.suite.beta.delete(&DEPLOYMENT, &case.ns, "web").await;
    case.suite
        .beta
        .gone(&DEPLOYMENT, &case.ns, "web", seconds(60))
        .await;
    leave_beta(&case).await;
}

async fn a75_rotation_under_load(case: Case) {
    let twin = credentials::Twin::new(&case.project, "default", &format!("twin-{}", case.ns)).await;
    let file = case
        .suite
        .gateway
        .projects()
        .join(format!("{}.yaml", suite::ALPHA_KEY));
    let original = std::fs::read_to_string(&file).expect("alpha's kubeconfig is in the folder");
    let mark = case.suite.alpha_log.mark();
    let creator = {
        let case = case.clone();
        tokio::spawn(async move {
            for number in 0..30 {
                case.create(&DEPLOYMENT, deployment(&format!("web-{number}"), "DFW"))
                    .await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    };
    for _ in 0..3 {
        credentials::replace(&file, &credentials::with_token(&file, &twin.token().await));
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        credentials::replace(&file, &original);
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    creator.await.expect("all are created");
    for number in 0..30 {
        case.copy(&format!("web-{number}")).await;
    }
    let twins = case.suite.alpha_log.since(mark, &twin.user());
    assert!(
        twins.iter().any(|e| e.user.username == twin.user()),
        "the new credential was used"
    );
    twin.remove().await;
    case.quiet().await;
    case.merge(
        &DEPLOYMENT,
        "web-0",
        json!({"spec": {"scaleSettings": {"minReplicas": 2}}}),
    )
    .await;
    case.copy_sees("web-0", "has the new scale", |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == 2
    })
    .await;
}

/// The kubeconfig as a Secret of the hub, whose name is the project's key.
async fn publish(case: &Case, name: &str, kubeconfig: &str) {
    let secret = json!({
        "metadata": {"name": name, "labels": {keys::PROJECT_SECRET: "true"}},
        "stringData": {"kubeconfig": kubeconfig},
    });
    case.hub.create(&SECRET, SYSTEM, secret).await;
}

async fn projects_from_secrets(case: Case) {
    let suite = &case.suite;
    let file = suite
        .gateway
        .projects()
        .join(format!("{}.yaml", suite::ALPHA_KEY));
    let text = std::fs::read_to_string(file).expect("alpha's kubeconfig is in the folder");
    suite.gateway.stop().await;
    let second = suite.other_gateway(
        suite.gateway.hub_kubeconfig().to_owned(),
        Projects::Secrets(SYSTEM),
    );
    publish(&case, suite::ALPHA_KEY, &text).await;
    second.start().await;
    let copy = case.deploy("web", "DFW").await;
    // One that is published while it runs, and may not be used.
    let mut config: serde_json::Value = serde_saphyr::from_str(&text).expect("a kubeconfig is YAML");
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never",
    }});
    let plugin = serde_saphyr::to_string(&config).expect("a kubeconfig prints");
    publish(&case, "plugin", &plugin).await;
    wait_for("the refusal names the field", seconds(20), || async {
        let planes: serde_json::Value = serde_json::from_str(&second.planes().await).ok()?;
        let refused = planes["refusedProjects"]["plugin"].as_str()?;
        refused.contains("exec").then_some(())
    })
    .await;
    // Taken away, the project is left alone.
    case.hub.delete(&SECRET, SYSTEM, suite::ALPHA_KEY).await;
    wait_for("the project is left", seconds(20), || async {
        let planes = second.planes().await;
        (!planes.contains(&format!("project {}", suite::ALPHA_KEY))).then_some(())
    })
    .await;
    let scaled = json!({"spec": {"scaleSettings": {"minReplicas": 4}}});
    case.merge(&DEPLOYMENT, "web", scaled).await;
    let same = |state: Option<&serde_json::Value>| {
        state.is_some_and(|o| uid(o) == uid(&copy) && o["spec"] == copy["spec"])
    };
    case.hub
        .holds(
            &DEPLOYMENT,
            &case.hub_ns,
            "web",
            "is left as it is",
            seconds(3),
            same,
        )
        .await;
    case.hub.delete(&SECRET, SYSTEM, "plugin").await;
    second.stop().await;
    suite.gateway.start().await;
    case.copy_sees("web", "follows once the project is back", |o| {
        o["spec"]["scaleSettings"]["minReplicas"] == 4
    })
    .await;
}
