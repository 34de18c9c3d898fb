//! `fedgate doctor --host-kubeconfig`: the state of the gateway itself.

use super::{bare_hub::bare_hub, file, forwarded::overview, host::Host, replica::Replica, run};
use serde_json::{Value, json};

/// A replica without a problem.
fn well(identity: &str, role: &str) -> Value {
    let mut document = overview(identity, role);
    document["health"] = json!({"state": "ok", "reasons": []});
    document
}

/// `<verdict> <text>; <next>` of the findings about the gateway.
async fn found(host: &Host) -> Vec<String> {
    let (exit, lines) = report(&host.kubeconfig()).await;
    assert_eq!(exit, 1, "{lines:?}");
    lines
}

/// The same of the host of this kubeconfig, and the exit code.
async fn report(host: &str) -> (i32, Vec<String>) {
    let (exit, report) = examined(host, &[]).await;
    (exit, lines(&report, "gateway"))
}

/// The findings of a check of the host.
fn lines(report: &Value, check: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let findings = report["findings"].as_array().unwrap();
    let is_of = |finding: &&Value| finding["check"] == check && finding["plane"] == "host";
    for finding in findings.iter().filter(is_of) {
        let text = |field: &str| finding[field].as_str().unwrap();
        lines.push(format!("{} {}; {}", text("verdict"), text("text"), text("next")));
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_are_not_ready_or_lack_a_city_are_counted_by_the_leader() {
    for (cells, line) in [
        (
            json!({"ready": 2, "draining": 3, "not_ready": 0, "unlabelled": 0, "leaving": 1}),
            "ok Clusters: 2 ready, 3 being drained, 0 not ready, 0 without a city, 1 leaving; ",
        ),
        (
            json!({"ready": 2, "not_ready": 1, "unlabelled": 0, "leaving": 0}),
            "fail Clusters: 2 ready, 0 being drained, 1 not ready, 0 without a city, 0 leaving; fedgate cells list",
        ),
        (
            json!({"ready": 0, "not_ready": 0, "unlabelled": 0, "leaving": 0}),
            "open Clusters: 0 ready, 0 being drained, 0 not ready, 0 without a city, 0 leaving; fedgate cells list",
        ),
    ] {
        let mut leader = well("b", "leader");
        leader["cells"] = cells;
        let (host, _replicas) = pair([well("a", "standby"), leader]).await;
        let lines = lines(&examined(&host.kubeconfig(), &[]).await.1, "cells");
        assert!(lines.len() == 1 && lines[0].starts_with(line), "{lines:?}");
    }
}

/// The whole report of a bare hub and the host of this kubeconfig, with further flags.
async fn examined(host: &str, flags: &[&str]) -> (i32, Value) {
    let (hub, host) = (file(&bare_hub().await), file(host));
    let planes = [
        "doctor",
        "--hub-kubeconfig",
        hub.to_str().unwrap(),
        "--host-kubeconfig",
        host.to_str().unwrap(),
        "-o",
        "json",
    ];
    let seen = run(&[&planes, flags].concat()).await;
    let report = serde_json::from_str(&seen.stdout);
    (
        seen.exit,
        report.unwrap_or_else(|error| panic!("{error}: {}{}", seen.stdout, seen.stderr)),
    )
}

/// A kubeconfig for an API server on this port of the loopback.
fn kubeconfig(port: u16) -> String {
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}]})
    .to_string()
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
async fn without_a_leader_the_planes_that_the_standbys_cannot_reach_are_findings() {
    let replicas = ["a", "b"].map(|name| {
        let mut replica = well(name, "standby");
        replica["health"] = json!({"state": "degraded", "reasons": [
            {"class": "plane", "plane": "hub", "word": "unreachable", "count": 1, "next": "start the hub"}]});
        replica
    });
    let (host, _replicas) = pair(replicas).await;
    assert_eq!(
        found(&host).await,
        [
            "fail no replica leads; docs/runbooks/FedgateNoLeader.md",
            "fail degraded: plane hub: unreachable (1); start the hub",
        ]
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

/// An answer of the host is no absence of it, and each has the step that repairs it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_lacks_or_forbids_something_is_not_absent() {
    let host = Host::start().await;
    let lines = found(&host).await;
    assert!(
        lines[0].starts_with("fail no Pod of the gateway runs; kubectl "),
        "{lines:?}"
    );
    host.forbids("list pods");
    let lines = found(&host).await;
    assert!(lines[0].starts_with("fail you may not list pods"), "{lines:?}");
    assert!(
        lines[0].contains("; kubectl -n fedgate-system create rolebinding fedgate-operator"),
        "{lines:?}"
    );
    host.has_no_secret();
    let lines = found(&host).await;
    assert!(lines[0].contains("has no Secret fedgate-admin; "), "{lines:?}");
    assert!(
        lines[0].contains(
            "; kubectl -n fedgate-system create secret generic fedgate-admin --from-literal=token="
        ),
        "doctor has no flag for a token: {lines:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_does_not_answer_or_refuses_the_credential_is_absent() {
    let (exit, lines) = report(&kubeconfig(1)).await;
    assert_eq!(exit, 3, "{lines:?}");
    assert!(
        lines[0].starts_with("fail cannot reach the API server http://127.0.0.1:1: "),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("; check clusters[].cluster.server in --host-kubeconfig"),
        "{lines:?}"
    );
    let host = Host::start().await;
    host.refuses_the_credential();
    let (exit, lines) = report(&host.kubeconfig()).await;
    assert_eq!(exit, 3, "{lines:?}");
    assert!(lines[0].contains("refuses the credentials"), "{lines:?}");
    assert!(
        lines[0].contains("; issue a new token or client certificate for the user in --host-kubeconfig"),
        "{lines:?}"
    );
    let (exit, lines) = report("clusters: [").await;
    assert_eq!(exit, 3, "{lines:?}");
    assert!(lines[0].contains("; correct --host-kubeconfig"), "{lines:?}");
}

/// How often the hub was asked for the rights of a role.
async fn roles_asked_for(host: &Host, flags: &[&str]) -> usize {
    let (_, report) = examined(&host.kubeconfig(), flags).await;
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .filter(|finding| finding["plane"] == "hub" && finding["check"] == "rights")
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_or_the_pods_say_that_the_hub_is_to_review_tokens() {
    let host = Host::start().await;
    assert_eq!(roles_asked_for(&host, &[]).await, 1);
    assert_eq!(roles_asked_for(&host, &["--admin-auth=hub"]).await, 2);
    host.pod("gateway-a", 1);
    host.runs_with(&["gateway", "--admin-auth=token"]);
    assert_eq!(roles_asked_for(&host, &[]).await, 1);
    for arguments in [
        ["gateway", "--admin-auth=hub", "--leader-elect"],
        ["gateway", "--admin-auth", "hub"],
    ] {
        host.runs_with(&arguments);
        assert_eq!(roles_asked_for(&host, &[]).await, 2, "{arguments:?}");
    }
}
