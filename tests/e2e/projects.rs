//! 68, 69, 72–75: projects come, go, hang, and change their credentials.

use crate::support::{
    Case, credentials, deployment,
    gateway::{ORPHAN, Projects, RETENTION, SELDOM, SWEEP},
    hub_namespace,
    kinds::{DEPLOYMENT, NAMESPACE, SECRET},
    lone_trials, seconds,
    suite::{ALPHA_KEY, BETA_KEY, SYSTEM},
    trials, uid, wait_for,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::TcpListener;

trials![
    a72_namespace_recreated,
    #[core]
    a73_kubeconfig_with_exec_is_refused,
];

lone_trials![
    a68_project_added_late,
    a69_project_that_never_answers,
    projects_that_lead_nowhere_or_lack_rights,
    a74_removed_file_leaves_the_hub,
    a75_rotation_under_load,
    #[core]
    projects_from_secrets,
];

/// The kubeconfig file of a project in the gateway's folder.
fn file_of(case: &Case, key: &str) -> PathBuf {
    case.suite.gateway.projects().join(format!("{key}.yaml"))
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("the project's kubeconfig is in the folder")
}

fn remove(file: &Path) {
    std::fs::remove_file(file).expect("take the project's kubeconfig away");
}

fn scaled(o: &Value) -> bool {
    o["spec"]["scaleSettings"]["minReplicas"] == 4
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
    let gateway = &case.suite.gateway;
    let hub_ns = in_beta(&case).await;
    case.deploy("web", "DFW").await;
    let file = file_of(&case, BETA_KEY);
    let text = read(&file);
    remove(&file);
    gateway.left(BETA_KEY).await;
    case.suite
        .beta
        .create(&DEPLOYMENT, &case.ns, deployment("web", "DFW"))
        .await;
    let what = "is absent while beta is away";
    let absent = |state: Option<&Value>| state.is_none();
    case.hub
        .holds(&DEPLOYMENT, &hub_ns, "web", what, seconds(3), absent)
        .await;
    credentials::replace(&file, &text);
    case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    gateway.engaged(BETA_KEY).await;
    // Taken away again, it is left alone; the other project goes on.
    remove(&file);
    gateway.left(BETA_KEY).await;
    let scale = json!({"spec": {"scaleSettings": {"minReplicas": 4}}});
    case.suite
        .beta
        .merge(&DEPLOYMENT, &case.ns, "web", scale.clone())
        .await;
    case.merge(&DEPLOYMENT, "web", scale).await;
    case.copy_sees("web", "has the new scale", scaled).await;
    let as_it_was = |state: Option<&Value>| state.is_some_and(|o| !scaled(o));
    case.hub
        .holds(&DEPLOYMENT, &hub_ns, "web", "is as it was", seconds(2), as_it_was)
        .await;
    credentials::replace(&file, &text);
    let what = "has the new scale";
    case.hub
        .sees(&DEPLOYMENT, &hub_ns, "web", what, seconds(30), scaled)
        .await;
    leave_beta(&case).await;
}

/// The whole life of a deployment, as far as a gateway has a part in it.
async fn lives_and_ends(case: &Case, name: &str) {
    case.deploy(name, "DFW").await;
    case.dfw.report(&case.hub_ns, name, 1, 1).await;
    case.condition(name, "Federated", "True", "Delivered").await;
    let scale = json!({"spec": {"scaleSettings": {"minReplicas": 4}}});
    case.merge(&DEPLOYMENT, name, scale).await;
    case.copy_sees(name, "has the new scale", scaled).await;
    case.remove(name).await;
}

/// How little a silent project costs the others is measured where time stands still: `tests/prove/outage.rs`. Here it is
/// silent for real, and everything else gets done meanwhile.
async fn a69_project_that_never_answers(case: Case) {
    let gateway = &case.suite.gateway;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("bind a free port");
    let address = silent.local_addr().expect("a bound listener has an address");
    let (reached, mut called) = tokio::sync::mpsc::unbounded_channel();
    let holder = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
            let _ = reached.send(());
        }
    });
    let file = file_of(&case, "silent");
    credentials::replace(
        &file,
        &credentials::with_server(&file_of(&case, BETA_KEY), address),
    );
    called.recv().await.expect("the gateway calls the silent project");
    lives_and_ends(&case, "beside").await;
    // It does not keep the process from being ready either, nor from carrying as soon as it is.
    gateway.stop().await;
    while called.try_recv().is_ok() {}
    gateway.start().await;
    called
        .recv()
        .await
        .expect("the gateway calls the silent project again");
    lives_and_ends(&case, "after-restart").await;
    called
        .recv()
        .await
        .expect("it is called for as long as it is silent");
    let seen = gateway.project("silent").await.expect("it is engaged");
    assert_eq!(seen["ready"], false, "it has never answered: {seen}");
    remove(&file);
    gateway.left("silent").await;
    holder.abort();
}

/// The watches of a project, as soon as all of them show an error and none a complete list.
async fn failing_watches(case: &Case, key: &str, error: &str) -> Vec<Value> {
    let what = format!("every watch of project {key} shows an error with {error:?}");
    // One watch in turn probes a server that does not answer, every 5 s.
    wait_for(&what, seconds(90), || async {
        let watches = case.suite.gateway.project(key).await?["watches"].clone();
        let watches = watches.as_array()?.clone();
        let fails = |watch: &Value| {
            let said = watch["error"].as_str().unwrap_or_default().to_lowercase();
            watch["synced"] == false && said.contains(error)
        };
        (!watches.is_empty() && watches.iter().all(fails)).then_some(watches)
    })
    .await
}

async fn projects_that_lead_nowhere_or_lack_rights(case: Case) {
    let suite = &case.suite;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind a free port");
        listener.local_addr().expect("a bound listener has an address")
    };
    let stranger =
        credentials::Twin::without_rights(&suite.beta, "default", &format!("stranger-{}", case.ns)).await;
    let beta = file_of(&case, BETA_KEY);
    let texts = [
        ("nowhere", credentials::with_server(&beta, closed)),
        (
            "stranger",
            credentials::with_token(&beta, &stranger.token().await),
        ),
    ];
    for (key, text) in &texts {
        credentials::replace(&file_of(&case, key), text);
    }
    failing_watches(&case, "nowhere", "connect").await;
    failing_watches(&case, "stranger", "forbidden").await;
    // The others go on: the one whose server the stranger asks as well.
    case.deploy("web", "DFW").await;
    let hub_ns = in_beta(&case).await;
    suite
        .beta
        .create(&DEPLOYMENT, &case.ns, deployment("web", "DFW"))
        .await;
    case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    // Nor do they keep the process from being ready.
    suite.gateway.restart().await;
    case.deploy("after-restart", "DFW").await;
    for (key, _) in &texts {
        remove(&file_of(&case, key));
        suite.gateway.left(key).await;
    }
    leave_beta(&case).await;
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
        .gone(&NAMESPACE, "", &case.hub_ns, seconds(RETENTION + 240))
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
    let mark = case.suite.gateway.log_mark();
    let file = file_of(&case, "plugin");
    credentials::replace(&file, &credentials::with_plugin(&file_of(&case, BETA_KEY)));
    let line = wait_for("the refusal is logged", seconds(20), || async {
        case.suite
            .gateway
            .log_since(mark)
            .into_iter()
            .find(|line| line.contains("plugin") && line.contains("exec"))
    })
    .await;
    remove(&file);
    assert!(
        line.contains("WARN") || line.contains("ERROR"),
        "the refusal stands out: {line}"
    );
    case.deploy("web", "DFW").await;
}

async fn a74_removed_file_leaves_the_hub(case: Case) {
    let gateway = &case.suite.gateway;
    gateway.sweep_every(SWEEP).await;
    let hub_ns = in_beta(&case).await;
    case.suite
        .beta
        .create(&DEPLOYMENT, &case.ns, deployment("web", "DFW"))
        .await;
    let copy = case.hub.exists(&DEPLOYMENT, &hub_ns, "web", seconds(60)).await;
    let file = file_of(&case, BETA_KEY);
    let text = read(&file);
    remove(&file);
    gateway.left(BETA_KEY).await;
    let same = |state: Option<&Value>| {
        state.is_some_and(|o| uid(o) == uid(&copy) && o["metadata"]["deletionTimestamp"].is_null())
    };
    // Longer than all the patience there is, and a sweep.
    let time = seconds(ORPHAN + RETENTION + SWEEP + 2);
    case.hub
        .holds(&DEPLOYMENT, &hub_ns, "web", "is untouched", time, same)
        .await;
    assert!(case.hub.get(&NAMESPACE, "", &hub_ns).await.is_some());
    gateway.sweep_every(SELDOM).await;
    credentials::replace(&file, &text);
    case.suite.beta.delete(&DEPLOYMENT, &case.ns, "web").await;
    case.suite
        .beta
        .gone(&DEPLOYMENT, &case.ns, "web", seconds(60))
        .await;
    leave_beta(&case).await;
}

async fn a75_rotation_under_load(case: Case) {
    let file = file_of(&case, ALPHA_KEY);
    let original = read(&file);
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
    // Each credential is refused soon after the next one is in use.
    let mut last: Option<(credentials::Twin, String)> = None;
    let mut ended = Vec::new();
    for round in 0..3 {
        let twin =
            credentials::Twin::new(&case.project, "default", &format!("twin-{round}-{}", case.ns)).await;
        let text = credentials::with_token(&file, &twin.token().await);
        credentials::replace(&file, &text);
        wait_for("the new credential is used", seconds(30), || async {
            let asked = case.suite.alpha_log.since(mark, &twin.user());
            (!asked.is_empty()).then_some(())
        })
        .await;
        if let Some((old, text)) = last.replace((twin, text)) {
            old.end(&text).await;
            ended.push(old);
        }
    }
    creator.await.expect("all are created");
    for number in 0..30 {
        case.copy(&format!("web-{number}")).await;
    }
    credentials::replace(&file, &original);
    let edit = async |replicas: u32| {
        case.merge(
            &DEPLOYMENT,
            "web-0",
            json!({"spec": {"scaleSettings": {"minReplicas": replicas}}}),
        )
        .await;
        case.copy_sees("web-0", "has the new scale", |o| {
            o["spec"]["scaleSettings"]["minReplicas"] == replicas
        })
        .await;
    };
    edit(2).await;
    if let Some((old, text)) = last {
        old.end(&text).await;
        ended.push(old);
    }
    case.quiet().await;
    for twin in ended {
        twin.remove().await;
    }
    edit(3).await;
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
    let file = file_of(&case, ALPHA_KEY);
    let text = read(&file);
    suite.gateway.stop().await;
    let second = suite.other_gateway(
        suite.gateway.hub_kubeconfig().to_owned(),
        Projects::Secrets(SYSTEM),
    );
    publish(&case, ALPHA_KEY, &text).await;
    second.start().await;
    let copy = case.deploy("web", "DFW").await;
    // One that is published while it runs, and may not be used.
    let plugin = credentials::with_plugin(&file);
    publish(&case, "plugin", &plugin).await;
    wait_for("the refusal names the field", seconds(20), || async {
        let planes = second.planes().await;
        let refused = planes["refusedProjects"]["plugin"].as_str()?;
        refused.contains("exec").then_some(())
    })
    .await;
    // Taken away, the project is left alone.
    case.hub.delete(&SECRET, SYSTEM, ALPHA_KEY).await;
    second.left(ALPHA_KEY).await;
    let scale = json!({"spec": {"scaleSettings": {"minReplicas": 4}}});
    case.merge(&DEPLOYMENT, "web", scale).await;
    let same =
        |state: Option<&Value>| state.is_some_and(|o| uid(o) == uid(&copy) && o["spec"] == copy["spec"]);
    let what = "is left as it is";
    case.hub
        .holds(&DEPLOYMENT, &case.hub_ns, "web", what, seconds(3), same)
        .await;
    case.hub.delete(&SECRET, SYSTEM, "plugin").await;
    second.stop().await;
    suite.gateway.start().await;
    case.copy_sees("web", "follows once the project is back", scaled)
        .await;
}
