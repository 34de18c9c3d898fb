//! 90: credentials that are lost or wrong while the gateway runs.

use crate::support::{
    Case, credentials, deployment, hub_namespace,
    kinds::{DEPLOYMENT, NAMESPACE},
    lone_trials, seconds,
    suite::ALPHA_KEY,
    wait_for,
};
use serde_json::{Value, json};

lone_trials![
    #[core]
    a90_credentials_that_are_lost_or_wrong,
];

async fn edit(case: &Case, to: u32) {
    let scale = json!({"spec": {"scaleSettings": {"minReplicas": to}}});
    case.merge(&DEPLOYMENT, "web", scale).await;
}

async fn follows(case: &Case, to: u32) {
    case.copy_sees("web", &format!("has the scale {to}"), |copy| {
        copy["spec"]["scaleSettings"]["minReplicas"] == to
    })
    .await;
}

/// Waits until the operations API shows that a plane refuses the credential.
async fn is_refused(case: &Case, plane: &str) {
    wait_for(&format!("{plane} is shown as refusing"), seconds(60), || async {
        let (_, planes) = case.suite.gateway.operations("planes?state=backoff").await?;
        let mut rows = planes["items"].as_array()?.iter();
        let row = rows.find(|row| row["plane"] == plane)?;
        let next = row["next"].as_str()?;
        next.starts_with("renew the credential").then_some(())
    })
    .await;
}

async fn a90_credentials_that_are_lost_or_wrong(case: Case) {
    let gateway = &case.suite.gateway;
    let process = gateway.pid().await;
    case.deploy("web", "DFW").await;
    let beta = &case.suite.beta;
    let namespace = json!({"metadata": {"name": case.ns}});
    let in_beta = hub_namespace(&beta.create(&NAMESPACE, "", namespace).await);

    // A project's credential is wrong: it is named, other projects go on, and the right one is taken up.
    let file = gateway.projects().join(format!("{ALPHA_KEY}.yaml"));
    let right = std::fs::read_to_string(&file).expect("read the project's kubeconfig");
    credentials::replace(&file, &credentials::with_token(&file, "no-token-of-this-server"));
    is_refused(&case, ALPHA_KEY).await;
    edit(&case, 2).await;
    beta.create(&DEPLOYMENT, &case.ns, deployment("web", "DFW")).await;
    case.hub.exists(&DEPLOYMENT, &in_beta, "web", seconds(60)).await;
    credentials::replace(&file, &right);
    follows(&case, 2).await;

    // The hub's file is lost, then holds no kubeconfig: connections go on with the last good one.
    let file = gateway.hub_kubeconfig();
    let right = std::fs::read_to_string(file).expect("read the hub's kubeconfig");
    std::fs::remove_file(file).expect("remove the hub's kubeconfig");
    edit(&case, 3).await;
    follows(&case, 3).await;
    let mark = gateway.log_mark();
    credentials::replace(file, "users: [unfinished");
    wait_for("the log names the file", seconds(30), || async {
        let name = file.file_name()?.to_str()?;
        let lines = gateway.log_since(mark);
        lines.iter().any(|line| line.contains(name)).then_some(())
    })
    .await;
    edit(&case, 4).await;
    follows(&case, 4).await;

    // A credential that the hub refuses stops the writes and not the process, and the right one is taken up.
    credentials::replace(file, &right);
    let wrong = credentials::with_token(file, "no-token-of-this-server");
    credentials::replace(file, &wrong);
    is_refused(&case, "hub").await;
    assert!(gateway.lives().await, "it lives");
    edit(&case, 5).await;
    credentials::replace(file, &right);
    follows(&case, 5).await;

    assert_eq!(gateway.pid().await, process, "it was not started anew");
    let copy = case.copy("web").await;
    assert_eq!(copy["metadata"]["deletionTimestamp"], Value::Null);
    beta.delete(&NAMESPACE, "", &case.ns).await;
}
