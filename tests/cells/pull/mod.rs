//! A cell whose karmada-agent reads from the hub joins and leaves by the commands alone. With real Karmada its own agent
//! runs, with the Secret and the flags that `join` has written; the stand-in delivers without one.

pub(crate) mod adopted;
pub(crate) mod agent;
pub(crate) mod killed;
mod program;
mod rights;

use crate::{
    membership::{fedgate, writes},
    support::{
        Case, Wish,
        audit::AuditLog,
        kinds::{
            CLUSTER, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, DEFINITION, DEPLOYMENT, Kind, LEASE, NAMESPACE,
            ROLE, ROLE_BINDING, SECRET, kind,
        },
        lone_trials, seconds,
        suite::{NEW, NewCell},
        wait_for, with_cleanup,
    },
};
use agent::{Agent, PODS, SECRET_NAME, WITHIN, is_karmada, of_agent, refused_nowhere, stopped};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rights::may_do_no_more;
use serde_json::{Value, json};
use std::path::Path;

lone_trials![m03_a_cluster_joins_by_pull_runs_and_leaves];

const REQUEST: Kind = kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    false,
);

/// The command line of a join by pull; its first five words are those of one by push.
const JOIN: [&str; 9] = [
    "cells",
    "join",
    NEW.0,
    "--city",
    NEW.1,
    "--mode",
    "pull",
    "--agent-image",
    "registry.example.com/karmada-agent:v1",
];

/// The command line by which a cell is emptied: Namespaces of its city that nobody uses are bound to it until they go.
const DRAIN: [&str; 6] = ["cells", "drain", NEW.0, "--allow-outage", "--timeout", "2m"];

async fn m03_a_cluster_joins_by_pull_runs_and_leaves(case: Case) {
    let new = case.suite.new_cell().await;
    with_cleanup(joined_by_pull(&case, &new), new.role.stop()).await;
}

async fn joined_by_pull(case: &Case, new: &NewCell) {
    let (name, city) = NEW;
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    let join = JOIN;
    let logs = [&case.suite.hub_log, &new.role.log];
    let begin = logs.map(AuditLog::mark);

    preview(case, new, &join, &both).await;
    if !is_karmada() {
        unsigned(case, &join, &both).await;
    }
    let out = [both[0], both[1], ("--credential-out", new.credential.as_path())];
    let (joined, agent) = tokio::join!(fedgate(&join, &out), operator(case, new));
    let joined = joined.exits(0, "cell iad-1 serves IAD");
    is_registered(case, new, &joined.stderr).await;
    let deployment = new.role.plane.get(&PODS, WITHIN, "karmada-agent").await;
    program::fits(&deployment.expect("it is there")).await;
    refused_nowhere(logs, begin);
    may_do_no_more(new).await;
    let begin = logs.map(AuditLog::mark);

    new.role.start().await;
    let wish = Wish {
        places: vec![("us".to_owned(), city.to_owned(), 1)],
        ..Wish::new("pulled", 1)
    };
    case.run(&wish).await;
    unchanged(case, new, &join, &both).await;
    let agent = renewed(new, agent, &join, &both).await;
    moved(case, new, &join, &both).await;
    replaced(case, new, &join, &both).await;
    refusals(name, city, &both).await;
    drained(case, new, &wish, &both).await;
    refused_nowhere(logs, begin);
    departed(case, new, agent, &join, &both).await;
    if is_karmada() {
        forced(case, new, &join, &both).await;
        without_an_agent(case, new, &join, &both).await;
    }
}

/// Wrong flags, a dry run and the printed objects write nothing and show no key.
async fn preview(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let (name, city) = NEW;
    let push = ["cells", "join", name, "--city", city];
    for (further, words) in [
        (&["--mode", "pull"][..], "--mode pull needs --agent-image"),
        (&["--agent-image", "x"], "--agent-image needs --mode pull"),
        (
            &[
                "--mode",
                "pull",
                "--agent-image",
                "x",
                "--rights",
                "full",
                "--proxy",
            ],
            "--proxy needs --mode push",
        ),
    ] {
        fedgate(&[&push[..], further].concat(), both)
            .await
            .exits(2, words);
    }
    fedgate(&[join, &["--dry-run"]].concat(), both)
        .await
        .exits(0, "create Deployment karmada-system/karmada-agent (dry run)");
    let printed = fedgate(&[join, &["-o", "yaml"]].concat(), both)
        .await
        .exits(0, "system:karmada:iad-1:agent-work");
    assert!(!printed.stdout.contains("\ndata:"), "{}", printed.stdout);
    assert!(case.hub.get(&CLUSTER, "", name).await.is_none());
    assert!(case.hub.get(&NAMESPACE, "", "karmada-es-iad-1").await.is_none());
    assert!(new.role.plane.get(&NAMESPACE, "", WITHIN).await.is_none());
}

async fn requests(case: &Case) -> Vec<Value> {
    case.hub.list(&REQUEST, "", "fedgate.dev/made-by").await
}

/// Without an approval the join says how to approve, and the next one goes on with the same request.
async fn unsigned(case: &Case, join: &[&str], both: &[(&str, &Path)]) {
    let hasty = [join, &["--wait", "3s"]].concat();
    for _ in 0..2 {
        let ended = fedgate(&hasty, both).await.exits(8, "CertificatePending");
        let requests = requests(case).await;
        assert_eq!(requests.len(), 1, "{requests:#?}");
        let name = requests[0]["metadata"]["name"].as_str().expect("it has a name");
        assert!(name.starts_with("fedgate-agent-iad-1-"), "{name}");
        assert!(
            ended
                .stderr
                .contains(&format!("kubectl certificate approve {name}")),
            "{}",
            ended.stderr
        );
    }
}

/// The part of others in a join: an approval where Karmada gives none, and the Pod of the Deployment.
pub(crate) async fn operator(case: &Case, new: &NewCell) -> Option<Agent> {
    if !is_karmada() {
        approve(case).await;
        return None;
    }
    let plane = &new.role.plane;
    let deployment = plane.exists(&PODS, WITHIN, "karmada-agent", seconds(120)).await;
    Some(Agent::start(new, &deployment, &[]).await)
}

async fn approve(case: &Case) {
    let name = wait_for("the certificate is requested", seconds(120), || async {
        let found = requests(case).await;
        let open = found
            .iter()
            .find(|request| request["status"]["certificate"].is_null());
        open?["metadata"]["name"].as_str().map(str::to_owned)
    })
    .await;
    let api: Api<CertificateSigningRequest> = Api::all(case.hub.client());
    let condition =
        json!({"type": "Approved", "status": "True", "reason": "ByTest", "message": "by the test"});
    let patch = json!({"status": {"conditions": [condition]}});
    api.patch_approval(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .expect("approve the request");
}

/// The hub has the Cluster, and no credential of the cell.
async fn is_registered(case: &Case, new: &NewCell, said: &str) {
    let name = NEW.0;
    let cluster = case.hub.get(&CLUSTER, "", name).await.expect("it has joined");
    let system = new.role.plane.get(&NAMESPACE, "", "kube-system").await;
    assert_eq!(
        cluster["spec"]["id"],
        system.expect("it is there")["metadata"]["uid"]
    );
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    for reference in ["secretRef", "impersonatorSecretRef"] {
        assert!(cluster["spec"][reference].is_null(), "{}", cluster["spec"]);
    }
    assert!(case.hub.get(&SECRET, "karmada-cluster", name).await.is_none());
    let text = of_agent(new).await;
    let key = text.split("client-key-data\": \"").nth(1).expect("it has a key");
    assert!(!said.contains(&key[..40]));
    let listed = fedgate(
        &["cells", "list", "-o", "json"],
        &[("--hub-kubeconfig", new.hub.as_path())],
    )
    .await
    .exits(0, name);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("the list is JSON");
    let rows = listed["items"].as_array().expect("a list");
    let own = rows.iter().find(|row| row["name"] == name).expect("it is listed");
    assert_eq!(
        (&own["mode"], &own["madeBy"]),
        (&"Pull".into(), &"command".into())
    );
}

/// A second join writes nothing.
async fn unchanged(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let logs = [&case.suite.hub_log, &new.role.log];
    let marks = logs.map(AuditLog::mark);
    fedgate(join, both).await.exits(0, "nothing to change");
    assert_eq!(writes(&logs, &marks), [""; 0]);
}

/// The agent renews its certificate by itself, and a join leaves the new one alone.
async fn renewed(
    new: &NewCell,
    agent: Option<Agent>,
    join: &[&str],
    both: &[(&str, &Path)],
) -> Option<Agent> {
    agent?.end().await;
    let old = of_agent(new).await;
    let plane = &new.role.plane;
    let deployment = plane.get(&PODS, WITHIN, "karmada-agent").await;
    let deployment = deployment.expect("it is there");
    let always = [
        "--cert-rotation-remaining-time-threshold=1",
        "--leader-elect=false",
    ];
    let agent = Agent::start(new, &deployment, &always).await;
    wait_for("the agent has renewed its certificate", seconds(90), || async {
        (of_agent(new).await != old).then_some(())
    })
    .await;
    // It would do so again and again.
    agent.end().await;
    fedgate(join, both).await.exits(0, "nothing to change");
    Some(Agent::start(new, &deployment, &[]).await)
}

fn parsed(kubeconfig: &str) -> Value {
    serde_saphyr::from_str(kubeconfig).expect("a kubeconfig is YAML")
}

/// Another address of the hub goes into the agent's kubeconfig, with the certificate that it has, though the agent itself has
/// written that last.
async fn moved(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let old = parsed(&of_agent(new).await);
    let server = old["clusters"][0]["cluster"]["server"].as_str();
    let elsewhere = server.expect("it has a server").replace("127.0.0.1", "localhost");
    let asked = requests(case).await.len();
    fedgate(&[join, &["--hub-endpoint", &elsewhere]].concat(), both)
        .await
        .exits(0, "patch Secret karmada-system/karmada-kubeconfig");
    let present = parsed(&of_agent(new).await);
    assert_eq!(present["clusters"][0]["cluster"]["server"], elsewhere);
    assert_eq!(present["users"], old["users"]);
    fedgate(join, both)
        .await
        .exits(0, "patch Secret karmada-system/karmada-kubeconfig");
    assert_eq!(parsed(&of_agent(new).await)["clusters"], old["clusters"]);
    assert_eq!(requests(case).await.len(), asked);
}

/// A certificate that the hub does not accept, because it has expired or the hub is a new one, is replaced.
async fn replaced(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let asked = requests(case).await.len();
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::default()
        .self_signed(&key)
        .expect("a certificate");
    let base64 = |text: String| json!(ByteString(text.into_bytes()));
    let mut unknown = parsed(&of_agent(new).await);
    unknown["users"][0]["user"] = json!({
        "client-certificate-data": base64(certificate.pem()), "client-key-data": base64(key.serialize_pem()),
    });
    let useless = json!({"data": {SECRET_NAME: base64(unknown.to_string())}});
    new.role.plane.merge(&SECRET, WITHIN, SECRET_NAME, useless).await;
    let approval = async {
        if !is_karmada() {
            approve(case).await;
        }
    };
    let (joined, ()) = tokio::join!(fedgate(join, both), approval);
    joined.exits(0, "create CertificateSigningRequest fedgate-agent-iad-1-");
    assert_eq!(requests(case).await.len(), asked + 1);
    fedgate(join, both).await.exits(0, "nothing to change");
}

/// A cell keeps its mode, and has no token of Karmada's to rotate.
async fn refusals(name: &str, city: &str, both: &[(&str, &Path)]) {
    fedgate(&["cells", "join", name, "--city", city], both)
        .await
        .exits(4, "Cluster iad-1 has mode pull, not push");
    fedgate(&["cells", "credential", name, "rotate"], both)
        .await
        .exits(4, "karmada-agent rotates it itself");
}

/// A cell in use stays, and is drained like any other.
async fn drained(case: &Case, new: &NewCell, wish: &Wish, both: &[(&str, &Path)]) {
    let name = NEW.0;
    fedgate(&["cells", "leave", name], both)
        .await
        .exits(4, "pulled-us-iad");
    case.delete(wish).await;
    fedgate(&DRAIN, both).await.exits(0, "is drained");
    new.role.stop().await;
}

/// The cell leaves, comes back while Kubernetes still ends what it has left, and leaves again: nothing of it is left on either
/// side.
async fn departed(case: &Case, new: &NewCell, agent: Option<Agent>, join: &[&str], both: &[(&str, &Path)]) {
    let leave = ["cells", "leave", NEW.0];
    let (left, ()) = tokio::join!(fedgate(&leave, both), stopped(new, agent));
    left.exits(0, "cell iad-1 has left");
    let (joined, agent) = tokio::join!(fedgate(join, both), operator(case, new));
    joined.exits(0, "cell iad-1 serves IAD");
    fedgate(&DRAIN, both).await.exits(0, "is drained");
    let (left, ()) = tokio::join!(fedgate(&leave, both), stopped(new, agent));
    left.exits(0, "cell iad-1 has left");
    is_gone(case, new).await;
    fedgate(&leave, both)
        .await
        .exits(0, "nothing is left of cell iad-1");
}

/// A cell in use that leaves by force takes with it what Karmada has delivered: the agent has its rights until then.
async fn forced(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let (joined, agent) = tokio::join!(fedgate(join, both), operator(case, new));
    joined.exits(0, "cell iad-1 serves IAD");
    let wish = Wish {
        places: vec![("us".to_owned(), NEW.1.to_owned(), 1)],
        ..Wish::new("forced", 1)
    };
    case.create(&wish).await;
    let plane = &new.role.plane;
    plane
        .exists(&DEPLOYMENT, &case.hub_ns, "forced-us-iad", seconds(60))
        .await;
    let leave = ["cells", "leave", NEW.0, "--force"];
    let (left, ()) = tokio::join!(fedgate(&leave, both), stopped(new, agent));
    left.exits(0, "cell iad-1 has left");
    assert!(plane.get(&NAMESPACE, "", &case.hub_ns).await.is_none());
    is_gone(case, new).await;
    case.delete(&wish).await;
}

/// A cell whose agent never ran does not get its city, and leaves as well.
async fn without_an_agent(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    fedgate(&[join, &["--wait", "10s"]].concat(), both)
        .await
        .exits(8, "Karmada does not call it Ready");
    let cluster = case.hub.get(&CLUSTER, "", NEW.0).await.expect("it is there");
    assert!(cluster["metadata"]["labels"]["topology.datum.net/city-code"].is_null());
    fedgate(&["cells", "leave", NEW.0], both)
        .await
        .exits(0, "cell iad-1 has left");
    is_gone(case, new).await;
}

/// Nothing of the cell is left on either side.
pub(crate) async fn is_gone(case: &Case, new: &NewCell) {
    let (hub, cell) = (&case.hub, &new.role.plane);
    assert!(hub.get(&CLUSTER, "", NEW.0).await.is_none());
    hub.gone(&NAMESPACE, "", "karmada-es-iad-1", seconds(60)).await;
    for namespace in [WITHIN, "karmada-cluster", "fedgate-system"] {
        cell.gone(&NAMESPACE, "", namespace, seconds(60)).await;
    }
    assert!(hub.get(&LEASE, WITHIN, "karmada-agent-iad-1").await.is_none());
    hub.gone(&LEASE, "karmada-cluster", "iad-1", seconds(60)).await;
    let made = "fedgate.dev/made-by";
    for (plane, kind) in [
        (hub, &CLUSTER_ROLE),
        (hub, &CLUSTER_ROLE_BINDING),
        (hub, &ROLE),
        (hub, &ROLE_BINDING),
        (hub, &REQUEST),
        (cell, &CLUSTER_ROLE),
        (cell, &CLUSTER_ROLE_BINDING),
        (cell, &SECRET),
    ] {
        let left = plane.list(kind, "", made).await;
        assert!(left.is_empty(), "{left:#?}");
    }
    // An API server takes a definition and its objects away after it has answered the deletion.
    wait_for("no definition of fedgate is left", seconds(60), || async {
        cell.list(&DEFINITION, "", made).await.is_empty().then_some(())
    })
    .await;
}
