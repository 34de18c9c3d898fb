//! `fedgate doctor --host-kubeconfig`: the state of the gateway itself.

use super::{file, forwarded::overview, host::Host, replica::Replica, run};
use serde_json::{Value, json};

/// A replica without a problem.
fn well(identity: &str, role: &str) -> Value {
    let mut document = overview(identity, role);
    document["health"] = json!({"state": "ok", "reasons": []});
    document
}

/// `<verdict> <text>; <next>` of the findings about the gateway, and the exit code. The hub refuses connections, so that the
/// exit code is at least that of an absent plane.
async fn found(host: &Host) -> Vec<String> {
    let host = file(&host.kubeconfig());
    let hub = file(
        &json!({"apiVersion": "v1", "kind": "Config", "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "u"}}]})
        .to_string(),
    );
    let seen = run(&[
        "doctor",
        "--hub-kubeconfig",
        hub.to_str().unwrap(),
        "--host-kubeconfig",
        host.to_str().unwrap(),
        "-o",
        "json",
    ])
    .await;
    assert_eq!(seen.exit, 3, "{}{}", seen.stdout, seen.stderr);
    let report: Value = serde_json::from_str(&seen.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let mut lines = Vec::new();
    for finding in findings.iter().filter(|finding| finding["check"] == "gateway") {
        assert_eq!(finding["plane"], "host");
        let text = |field: &str| finding[field].as_str().unwrap();
        lines.push(format!("{} {}; {}", text("verdict"), text("text"), text("next")));
    }
    lines
}

async fn pair(documents: [Value; 2]) -> (Host, [Replica; 2]) {
    let host = Host::start().await;
    let replicas = [Replica::start().await, Replica::start().await];
    for ((replica, name), document) in replicas.iter().zip(["gateway-a", "gateway-b"]).zip(documents) {
        host.pod(name, replica.port);
        replica.serves("/overview", document);
    }
    (host, replicas)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_well_is_said_with_its_leader() {
    let (host, _replicas) = pair([well("a", "standby"), well("b", "leader")]).await;
    let version = overview("b", "leader")["replica"]["version"].clone();
    let version = version.as_str().unwrap();
    assert_eq!(
        found(&host).await,
        [format!("ok 2 replicas of version {version} answer, b leads; ")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_without_a_leader_and_of_different_versions_are_two_findings() {
    let mut other = well("b", "standby");
    other["replica"]["version"] = json!("0.0.8");
    other["replica"]["revision"] = json!("older");
    let (host, _replicas) = pair([well("a", "standby"), other]).await;
    let lines = found(&host).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("fail replicas run different versions: 0.0.8 (older), "),
        "{lines:?}"
    );
    assert_eq!(
        lines[1],
        "fail no replica leads; docs/runbooks/FedgateNoLeader.md"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_reason_of_a_degraded_leader_is_a_finding_with_its_next_step() {
    let mut leader = well("b", "leader");
    leader["health"] = json!({"state": "degraded", "reasons": [
        {"class": "plane", "plane": "hub", "word": "refused", "count": 1, "next": "start the hub"},
        {"class": "right", "plane": "project", "word": "patch instances", "count": 2, "next": "apply the roles"}]});
    let (host, _replicas) = pair([well("a", "standby"), leader]).await;
    assert_eq!(
        found(&host).await,
        [
            "fail degraded: plane hub: refused (1); start the hub",
            "fail degraded: right project: patch instances (2); apply the roles",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_answer_is_named() {
    let (host, _replicas) = pair([well("a", "leader"), well("b", "standby")]).await;
    host.pod("gateway-c", 1);
    let lines = found(&host).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("fail ") && lines[0].contains("gateway-c"),
        "{lines:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_pods_and_one_that_forbids_them_are_said() {
    let host = Host::start().await;
    let lines = found(&host).await;
    assert!(
        lines[0].starts_with("fail no Pod of the gateway runs; kubectl "),
        "{lines:?}"
    );
    host.forbids("list pods");
    let lines = found(&host).await;
    assert!(lines[0].starts_with("fail you may not list pods"), "{lines:?}");
}
