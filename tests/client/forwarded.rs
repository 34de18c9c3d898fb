//! The way through forwarded ports of Pods.

use super::{
    Seen, command, documents, file,
    host::Host,
    line_with,
    replica::{Replica, error},
    run, spawn, within,
};
use serde_json::{Value, json};

/// An overview of a replica that leads, or does not.
pub(crate) fn overview(identity: &str, role: &str) -> Value {
    let mut overview = documents::overview();
    overview["replica"]["identity"] = json!(identity);
    overview["replica"]["role"] = json!(role);
    overview
}

async fn ask(host: &Host, line: &str) -> Seen {
    let kubeconfig = file(&host.kubeconfig());
    let kubeconfig = kubeconfig.to_str().unwrap();
    let words: Vec<&str> = line.split(' ').chain(["--kubeconfig", kubeconfig]).collect();
    run(&words).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_found_among_the_pods_and_gets_the_token_of_the_secret() {
    let (host, standby, leader) = (
        Host::start().await,
        Replica::start().await,
        Replica::start().await,
    );
    host.pod("gateway-a", standby.port);
    host.pod("gateway-b", leader.port);
    standby.serves("/overview", overview("a", "standby"));
    leader.serves("/overview", overview("b", "leader"));
    let seen = ask(&host, "status").await;
    assert_eq!((seen.exit, seen.stderr.as_str()), (9, ""));
    assert!(seen.stdout.contains("b, leader, version"), "{}", seen.stdout);
    assert_eq!(
        leader.requests(),
        [(
            "/api/v1/overview".to_owned(),
            "Bearer operator-token-of-the-secret".to_owned()
        )]
    );
    let own = "Bearer own-token";
    assert_eq!(
        host.requests(),
        [
            format!("get secrets {own}"),
            format!("list pods {own}"),
            format!("get pods/portforward {own}"),
            format!("get pods/portforward {own}"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_leader_the_freshest_standby_answers_with_a_notice() {
    let (host, early, late, dead) = (
        Host::start().await,
        Replica::start().await,
        Replica::start().await,
        1,
    );
    host.pod("gateway-a", late.port);
    host.pod("gateway-b", early.port);
    host.pod("gateway-c", dead);
    early.serves("/overview", overview("early", "standby"));
    let mut fresh = overview("late", "standby");
    fresh["asOf"] = json!("2026-12-01T10:00:01.000Z");
    late.serves("/overview", fresh);
    let seen = ask(&host, "status").await;
    assert!(seen.stdout.contains("late, standby of"), "{}", seen.stdout);
    assert!(
        seen.stderr
            .starts_with("Pod fedgate-system/gateway-a answers, a standby"),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kubeconfigs_own_token_goes_to_a_pod_only_if_it_is_asked_for() {
    let (host, leader) = (Host::start().await, Replica::start().await);
    host.pod("gateway-a", leader.port);
    host.has_no_secret();
    leader.serves("/overview", overview("a", "leader"));
    let seen = ask(&host, "status").await;
    assert_eq!(seen.exit, 1);
    let server = format!("http://127.0.0.1:{}", host.port);
    assert_eq!(
        seen.stderr,
        format!(
            "error: namespace fedgate-system of {server} has no Secret fedgate-admin\n  next: --token-file PATH, or --admin-auth=hub\n"
        )
    );
    assert!(leader.requests().is_empty());
    assert_eq!(ask(&host, "status --admin-auth hub").await.exit, 9);
    assert_eq!(leader.requests()[0].1, "Bearer own-token");
    let token = file("token-of-a-file");
    assert_eq!(
        ask(&host, &format!("status --token-file {}", token.display()))
            .await
            .exit,
        9
    );
    assert_eq!(leader.requests()[1].1, "Bearer token-of-a-file");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_named_with_the_role_that_grants_them() {
    for (what, words) in [
        ("list pods", "you may not list pods in namespace fedgate-system"),
        (
            "get secrets",
            "you may not get secrets in namespace fedgate-system",
        ),
        (
            "get pods/portforward",
            "you may not get and create pods/portforward in namespace fedgate-system",
        ),
    ] {
        let (host, leader) = (Host::start().await, Replica::start().await);
        host.pod("gateway-a", leader.port);
        host.forbids(what);
        let seen = ask(&host, "status").await;
        assert_eq!(seen.exit, 6, "{what}: {}", seen.stderr);
        assert!(
            seen.stderr
                .starts_with(&format!("error: {words} of http://127.0.0.1:")),
            "{}",
            seen.stderr
        );
        let next =
            "  next: kubectl -n fedgate-system create rolebinding fedgate-operator --role=fedgate-operator";
        assert!(seen.stderr.contains(next), "{}", seen.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_are_missing_or_do_not_listen_are_named() {
    let host = Host::start().await;
    let seen = ask(&host, "status -n elsewhere").await;
    assert_eq!(seen.exit, 1);
    assert!(
        seen.stderr.starts_with("error: no Pod app.kubernetes.io/name=fedgate-gateway with a port admin in namespace elsewhere of http://"),
        "{}",
        seen.stderr
    );
    assert!(
        seen.stderr
            .contains("next: kubectl -n elsewhere get pods -l app.kubernetes.io/name=fedgate-gateway")
    );
    host.pod("gateway-a", 1);
    let seen = ask(&host, "status").await;
    assert_eq!(
        (seen.exit, seen.stderr.as_str()),
        (
            1,
            "error: port 8080 of Pod fedgate-system/gateway-a does not answer\n  cause: error forwarding port 8080: connection refused\n  next: kubectl -n fedgate-system logs gateway-a\n"
        )
    );
    let seen: Seen = command(&["status"]).output().await.unwrap().into();
    assert_eq!(seen.exit, 1);
    assert!(
        seen.stderr.starts_with("error: no cluster to ask: "),
        "{}",
        seen.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lacks_an_object_hides_none_of_the_leader() {
    let (host, standby, leader) = (
        Host::start().await,
        Replica::start().await,
        Replica::start().await,
    );
    host.pod("gateway-a", standby.port);
    host.pod("gateway-b", leader.port);
    let path = "/trace/shop-prod/default/workloads/web";
    standby.refuses(path, 404, error("NotFound", "not known yet", ""));
    leader.serves(path, documents::trace());
    let seen = ask(&host, "trace shop-prod default/web").await;
    assert_eq!((seen.exit, seen.stderr.as_str()), (9, ""));
    assert_eq!(standby.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_with_the_next_leader() {
    let (host, first, second) = (
        Host::start().await,
        Replica::start().await,
        Replica::start().await,
    );
    host.pod("gateway-a", first.port);
    host.pod("gateway-b", second.port);
    first.serves("/overview", overview("first", "leader"));
    second.serves("/overview", overview("second", "standby"));
    let kubeconfig = file(&host.kubeconfig());
    let (_child, mut lines) = spawn(&["status", "-w", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    line_with(&mut lines, "first, leader").await;
    second.serves("/overview", overview("second", "leader"));
    first.stop();
    line_with(&mut lines, "second, leader").await;
    second.streams(1).await;
    // A leader that only lost its Lease still answers.
    let third = Replica::start().await;
    host.pod("gateway-c", third.port);
    second.serves("/overview", overview("second", "standby"));
    third.serves("/overview", overview("third", "leader"));
    second.event("delta");
    line_with(&mut lines, "third, leader").await;
    within("a stream of the next leader", third.streams(1)).await;
    third.serves("/overview", overview("third again", "leader"));
    third.event("delta");
    line_with(&mut lines, "third again, leader").await;
}
