//! The commands of operators, through ports that a real API server forwards. KWOK plays the kubelet, and the replicas in
//! the Pods serve canned answers.

use crate::{
    documents,
    replica::Replica,
    support::{
        Case,
        compute::Compute,
        kinds::{POD, ROLE, ROLE_BINDING, SECRET},
        seconds, trials, wait_for,
    },
};
use fedgate_kinds::FederatedKind;
use fedgate_manifests::{KindManifests, NAMESPACE, OPERATOR};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

trials![operators_reach_the_leader_through_forwarded_ports];

/// The Pods whose ports the sandbox forwards.
pub(crate) const PODS: [&str; 2] = ["fedgate-gateway-0", "fedgate-gateway-1"];

/// The role of manifests/deploy.
fn role() -> Value {
    let kinds = FederatedKind::builtin().expect("the kinds are right");
    let kinds: Vec<_> = kinds.iter().map(|kind| KindManifests::of(kind, None)).collect();
    let files = fedgate_manifests::all(&kinds).expect("the manifests are right");
    let objects = files.into_iter().flat_map(|file| file.objects);
    let is_role = |object: &Value| object["kind"] == "Role" && object["metadata"]["name"] == OPERATOR;
    objects.into_iter().find(is_role).expect("the role is there")
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app.kubernetes.io/name": "fedgate-gateway"}}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "gateway", "image": "fedgate", "ports": [{"name": "admin", "containerPort": 8080}]}]}})
}

fn overview(identity: &str, role: &str) -> Value {
    let mut overview = documents::overview();
    overview["replica"]["identity"] = json!(identity);
    overview["replica"]["role"] = json!(role);
    overview
}

/// `fedgate` as an operator of the cell in DFW, which plays the host.
fn fedgate(operator: &Compute, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    command
        .args(words)
        .arg("--context=dfw-1")
        .arg("--kubeconfig")
        .arg(&operator.kubeconfig);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn operators_reach_the_leader_through_forwarded_ports(case: Case) {
    let host = &case.dfw().plane;
    let ann = Compute::new(&case, "ann", &[]);
    let first = Replica::at(case.suite.forward_target(PODS[0]).await).await;
    let second = Replica::at(case.suite.forward_target(PODS[1]).await).await;
    first.serves("/overview", overview("first", "standby"));
    second.serves("/overview", overview("second", "leader"));
    for name in PODS {
        host.create(&POD, NAMESPACE, pod(name)).await;
    }
    let token = json!({"metadata": {"name": "fedgate-admin"}, "stringData": {"token": "token-of-the-host"}});
    host.create(&SECRET, NAMESPACE, token).await;
    for name in PODS {
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        host.sees(&POD, NAMESPACE, name, "runs", seconds(60), runs).await;
    }

    let refused = fedgate(&ann, &["status"]).output().await.expect("run fedgate");
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(6), "{words}");
    assert!(words.contains("--role=fedgate-operator"), "{words}");

    host.create(&ROLE, NAMESPACE, role()).await;
    let binding = json!({"metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": OPERATOR},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ann.user}]});
    host.create(&ROLE_BINDING, NAMESPACE, binding).await;
    // An API server may take a moment to see a role.
    let seen = wait_for("ann is an operator", seconds(20), || async {
        let output = fedgate(&ann, &["status"]).output().await.expect("run fedgate");
        (output.status.code() != Some(6)).then_some(output)
    })
    .await;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&seen.stdout),
        String::from_utf8_lossy(&seen.stderr),
    );
    assert_eq!(seen.status.code(), Some(9), "{stderr}");
    assert!(stdout.contains("second, leader"), "{stdout}");
    assert_eq!(second.requests()[0].1, "Bearer token-of-the-host");

    let mut watch = fedgate(&ann, &["status", "-w"]);
    let mut watch = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("run fedgate");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    for (leader, next) in [("second, leader", true), ("first, leader", false)] {
        loop {
            let line = lines
                .next_line()
                .await
                .expect("read its result")
                .expect("it goes on");
            if line.contains(leader) {
                break;
            }
        }
        if next {
            first.serves("/overview", overview("first", "leader"));
            second.stop();
        }
    }
    watch.kill().await.expect("end it");
    for name in PODS {
        host.delete(&POD, NAMESPACE, name).await;
    }
    for (kind, name) in [
        (&SECRET, "fedgate-admin"),
        (&ROLE, OPERATOR),
        (&ROLE_BINDING, OPERATOR),
    ] {
        host.delete(kind, NAMESPACE, name).await;
    }
}
