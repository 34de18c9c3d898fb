//! The brake of the platform (federation.md §3.11), as the runbook of its alert shows it.

#[path = "../cells/runbooks/checks.rs"]
mod checks;

use crate::support::{Case, kinds::NAMESPACE, lone_trials, seconds, wait_for, with_cleanup};
use fedgate_api::keys;
use fedgate_sandbox::{Sandbox, User};
use serde_json::json;
use std::process::Stdio;
use tokio::process::Command;

lone_trials![a_platform_that_lacks_projects_is_shown_by_the_runbook];

/// Projects that the platform lacks.
const LOST: u64 = 12;
const ALERT: &str = "FedgateGarbageBrake";

/// The hub Namespace of a Project that the platform lacks.
fn namespace(number: u64) -> String {
    format!("ns-00000000-0000-4000-8000-{number:012}")
}

/// The output of a command, which asks the gateway itself: the sandbox has no cluster with its Pods.
async fn output(case: &Case, command: &str) -> (i32, String) {
    let server = format!("--server http://{}", case.suite.gateway.address());
    let command = command.replace("--context host", &server);
    let mut words = command.split(' ');
    let program = match words.next() {
        Some("fedgate") => env!("CARGO_BIN_EXE_fedgate").into(),
        Some("kubectl") => {
            let progress = fedgate_sandbox::Progress::new(|line| eprintln!("kubectl: {line}"));
            let kubectl = fedgate_sandbox::program("kubectl", &progress).await;
            kubectl.expect("kubectl can be had")
        }
        other => panic!("{other:?} is no program of a runbook's Check"),
    };
    let kubeconfig = async |sandbox: &Sandbox| sandbox.merged_kubeconfig();
    let output = Command::new(program)
        .args(words)
        .current_dir(&case.suite.dir)
        .env("KUBECONFIG", case.suite.with_sandbox(kubeconfig).await)
        .stdin(Stdio::null())
        .output()
        .await;
    let output = output.unwrap_or_else(|error| panic!("run {command}: {error}"));
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), text.concat())
}

async fn a_platform_that_lacks_projects_is_shown_by_the_runbook(case: Case) {
    let suite = &case.suite;
    let admin = async |sandbox: &Sandbox| sandbox.kubeconfig("hub", User::Admin);
    let admin = suite.with_sandbox(admin).await;
    std::fs::copy(admin, suite.dir.join("hub-admin.yaml")).expect("copy a kubeconfig");
    // As after a restore of the platform: Projects that were not seen to go, all found at once.
    suite.gateway.stop().await;
    for number in 0..LOST {
        let labels = json!({keys::UPSTREAM_CLUSTER: format!("cluster-lost-{number}"), keys::UPSTREAM_NAMESPACE: "default",
            keys::PROJECT_UID: format!("10000000-0000-4000-8000-{number:012}")});
        let object = json!({"metadata": {"name": namespace(number), "labels": labels}});
        suite.hub.create(&NAMESPACE, "", object).await;
    }
    let mark = suite.gateway.log_mark();
    let shown = async {
        suite.gateway.start().await;
        wait_for("the brake holds", seconds(60), || async {
            let held = suite.gateway.metric("fedgate_garbage_brake", &[]).await;
            (held > 0.0).then_some(())
        })
        .await;
        let mut faults = Vec::new();
        for command in &checks::checks()[ALERT] {
            let (code, words): (i32, &[&str]) =
                if command.starts_with("fedgate stuck --context host --class brake") {
                    (
                        9,
                        &[
                            "platform",
                            "cluster-lost-7",
                            "Namespaces of the hub name the Project of UID",
                        ],
                    )
                } else if command.starts_with("fedgate projects list") {
                    (0, &["AGE"])
                } else if command.starts_with("kubectl --context hub get namespaces") {
                    (0, &["cluster-lost-7", "10000000-0000-4000-8000-000000000007"])
                } else if command.starts_with("kubectl --context host -n fedgate-system logs") {
                    // Its Pods would show the log, which is searched below.
                    continue;
                } else {
                    faults.push(format!("no row for {command}"));
                    continue;
                };
            let (exit, text) = output(&case, command).await;
            if exit != code || !words.iter().all(|word| text.contains(word)) {
                faults.push(format!(
                    "{command}: {code} and {words:?} were expected: {exit}\n{text}"
                ));
            }
        }
        let said = "projects on the hub do not exist on the platform, and nobody saw them being deleted";
        if !suite
            .gateway
            .log_since(mark)
            .iter()
            .any(|line| line.contains(said))
        {
            faults.push(format!("the log does not say {said:?}"));
        }
        for number in 0..LOST {
            let kept = suite.hub.get(&NAMESPACE, "", &namespace(number)).await;
            assert!(kept.is_some_and(|kept| kept["metadata"]["deletionTimestamp"].is_null()));
        }
        assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    };
    let removed = async {
        for number in 0..LOST {
            suite.hub.delete(&NAMESPACE, "", &namespace(number)).await;
        }
        if !suite.gateway.is_running().await {
            suite.gateway.start().await;
        }
        wait_for("the brake ends", seconds(60), || async {
            let held = suite.gateway.metric("fedgate_garbage_brake", &[]).await;
            (held < 1.0).then_some(())
        })
        .await;
    };
    with_cleanup(shown, removed).await;
}
