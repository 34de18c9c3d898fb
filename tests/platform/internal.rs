//! Projects found and reached inside the platform's infrastructure cluster: each by a host of its own.

use crate::support::{
    Case,
    gateway::{Gateway, Projects, Setup},
    lone_trials,
    suite::{CONTROL_PLANE, FIRST, Suite},
    uid, with_cleanup,
};
use fedgate_sandbox::{Sandbox, User};
use serde_json::json;
use std::{io, net::SocketAddr, path::PathBuf, process::Command};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

lone_trials![control_planes_of_the_infrastructure_cluster_are_engaged_by_their_hosts];

/// The address of all control planes' hosts, at the port that such a host has.
const ADDRESS: &str = "127.77.0.1";
const PORT: u16 = 6443;

/// Whether a process may have an `/etc/hosts` of its own, by which the names of the infrastructure cluster are resolved.
pub(crate) fn hosts_can_be_named() -> bool {
    let tried = Command::new("unshare")
        .args(["--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"])
        .output();
    tried.is_ok_and(|output| output.status.success())
}

/// Passes connections on from the address of the hosts to the platform's.
async fn relay(to: SocketAddr) -> io::Result<JoinSet<()>> {
    let listener = TcpListener::bind((ADDRESS, PORT)).await?;
    let mut relay = JoinSet::new();
    relay.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            connections.spawn(async move {
                if let Ok(mut far) = TcpStream::connect(to).await {
                    // Either side ends the connection.
                    drop(copy_bidirectional(&mut near, &mut far).await);
                }
            });
        }
    });
    Ok(relay)
}

/// The file that names the hosts of all projects.
fn hosts(suite: &Suite) -> PathBuf {
    let lines = FIRST.map(|name| format!("{ADDRESS} milo-apiserver.project-{name}.svc.cluster.local\n"));
    let text = format!("127.0.0.1 localhost\n{}", lines.concat());
    let file = suite.dir.join("hosts");
    std::fs::write(&file, text).expect("write the hosts");
    file
}

async fn control_planes_of_the_infrastructure_cluster_are_engaged_by_their_hosts(case: Case) {
    let suite = &case.suite;
    let hub_ns = case.namespace("alpha").await;
    case.deploy("alpha", "web").await;
    case.lives("alpha", &case.ns, &hub_ns, "web").await;
    let before = case.copy(&hub_ns, "web").await;
    let relayed = relay(SocketAddr::from(([127, 0, 0, 1], suite.port))).await;
    let _relay = relayed.unwrap_or_else(|error| panic!("listen at {ADDRESS}:{PORT}: {error}"));
    let hub = suite.with_sandbox(async |sandbox: &Sandbox| sandbox.kubeconfig("hub", User::Gateway));
    let gateway = Gateway::new(Setup {
        hub: hub.await,
        projects: Projects::ControlPlanes(suite.kubeconfig.clone(), hosts(suite)),
        kinds: None,
        log: suite.dir.join("internal.log"),
        further: Vec::new(),
    });
    suite.gateway.stop().await;
    let body = async {
        gateway.start().await;
        for name in FIRST {
            gateway.engaged(name).await;
        }
        // The same Projects as by their paths: what is on the hub is theirs, and goes on.
        case.scale("alpha", "web", 2).await;
        let now = case.copy_scaled(&hub_ns, "web", 2).await;
        assert_eq!(uid(&now), uid(&before), "the copy is the same object");
        let other = case.namespace("beta").await;
        case.deploy("beta", "new").await;
        case.lives("beta", &case.ns, &other, "new").await;
        // A control plane that does not answer is left, and what it has stays.
        let ready = async |status: &str| {
            let condition = json!({
                "type": "ControlPlaneReady", "status": status, "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-05-04T10:00:00Z",
            });
            let status = json!({"conditions": [condition]});
            suite.core.merge_status(&CONTROL_PLANE, "", "beta", status).await;
        };
        ready("False").await;
        gateway.left("beta").await;
        case.scale("beta", "new", 2).await;
        case.scale("alpha", "web", 3).await;
        case.copy_scaled(&hub_ns, "web", 3).await;
        let left = case.copy(&other, "new").await;
        assert_eq!(left["spec"]["scaleSettings"]["minReplicas"], 1, "{left}");
        ready("True").await;
        gateway.engaged("beta").await;
        let again = case.copy_scaled(&other, "new", 2).await;
        assert_eq!(uid(&again), uid(&left), "the copy is the same object");
    };
    with_cleanup(body, async {
        gateway.stop().await;
        suite.gateway.start().await;
    })
    .await;
}
