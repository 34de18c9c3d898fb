//! Cells join, drain and leave, and projects come and go, by the commands alone.

use crate::support::{
    Case, Wish,
    audit::{AuditLog, Entry},
    credentials::with_token,
    kinds::{CLUSTER, CLUSTER_ROLE, CONFIG_MAP, DEFINITION, NAMESPACE, SECRET, SERVICE_ACCOUNT},
    lone_trials,
    plane::Plane,
    suite::{NEW, NewCell},
    with_cleanup,
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{os::unix::fs::PermissionsExt, path::Path, process::Stdio};
use tokio::process::Command;

lone_trials![
    m01_a_cluster_joins_runs_drains_and_leaves_by_commands,
    m02_a_project_is_added_rotated_and_removed_by_commands,
];

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn exits(self, code: i32, words: &str) -> Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        let text = format!("{}{}", self.stdout, self.stderr);
        assert!(text.contains(words), "{words:?} is missing in\n{text}");
        self
    }
}

pub(crate) async fn fedgate(words: &[&str], files: &[(&str, &Path)]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate"));
    command.args(words).stdin(Stdio::null()).kill_on_drop(true);
    for (flag, file) in files {
        command.arg(flag).arg(file);
    }
    let ended = command.output().await.expect("run fedgate");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        code: ended.status.code().unwrap_or(-1),
        stdout: text(&ended.stdout),
        stderr: text(&ended.stderr),
    }
}

/// Writes of the administrator since the marks; reviews of a credential change nothing.
pub(crate) fn writes(logs: &[&AuditLog], marks: &[u64]) -> Vec<String> {
    let is_write = |entry: &Entry| entry.is_write() && !entry.object_ref.resource.ends_with("reviews");
    logs.iter()
        .zip(marks)
        .flat_map(|(log, mark)| log.since(*mark, "\"admin\""))
        .filter(|entry| entry.user.username == "admin" && is_write(entry))
        .map(|entry| format!("{} {}", entry.action(), entry.object_ref.name))
        .collect()
}

pub(crate) async fn client(kubeconfig: &str) -> Client {
    let config = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

/// Waits until the server refuses a credential.
pub(crate) async fn refused(kubeconfig: &str) {
    let client = client(kubeconfig).await;
    crate::support::wait_for(
        "the credential is refused",
        crate::support::seconds(60),
        || async {
            let answer = client.apiserver_version().await;
            matches!(answer, Err(kube::Error::Api(status)) if status.code == 401).then_some(())
        },
    )
    .await;
}

async fn m01_a_cluster_joins_runs_drains_and_leaves_by_commands(case: Case) {
    let new = case.suite.new_cell().await;
    with_cleanup(membership(&case, &new), new.role.stop()).await;
}

async fn membership(case: &Case, new: &NewCell) {
    let (name, city) = NEW;
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--cell-kubeconfig", new.cell.as_path()),
    ];
    let hub = &both[..1];
    let out = ("--credential-out", new.credential.as_path());
    let join = ["cells", "join", name, "--city", city];

    preview(case, new, &join, &both).await;
    let joined = fedgate(&join, &[both[0], both[1], out])
        .await
        .exits(0, "cell iad-1 serves IAD");
    let mode = std::fs::metadata(&new.credential)
        .expect("the credential is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let credential = std::fs::read_to_string(&new.credential).expect("read the credential");
    let token = credential
        .split("\"token\": \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let token = token.expect("the kubeconfig has a token");
    assert!(!joined.stderr.contains(token) && !joined.stdout.contains(token));

    // The program of the cell needs no more than that file.
    new.role.start().await;
    let wish = Wish {
        places: vec![("us".to_owned(), city.to_owned(), 1)],
        ..Wish::new("web", 1)
    };
    case.run(&wish).await;

    let logs = [&case.suite.hub_log, &new.role.log];
    let marks = logs.map(AuditLog::mark);
    fedgate(&join, &[both[0], both[1], out])
        .await
        .exits(0, "nothing to change");
    assert_eq!(writes(&logs, &marks), [""; 0]);
    assert_eq!(
        std::fs::read_to_string(&new.credential).expect("read it"),
        credential
    );
    kept_for_another_address(new, &join, &both).await;
    let listed = fedgate(&["cells", "list", "-o", "json"], hub)
        .await
        .exits(0, name);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("the list is JSON");
    let rows = listed["items"].as_array().expect("a list");
    let own = rows
        .iter()
        .find(|row| row["name"] == name)
        .expect("the cell is listed");
    assert_eq!(
        (&own["city"], &own["open"], &own["ready"]),
        (&city.into(), &"true".into(), &"True".into())
    );
    assert_eq!(own["madeBy"], "command");

    rotated(case, new, &join, &both).await;
    // Full rights have no limits, and narrow ones have them again.
    fedgate(&[&join[..], &["--rights", "full"]].concat(), &both)
        .await
        .exits(0, "delete ValidatingAdmissionPolicy fedgate-karmada-writes");
    fedgate(&join, &both)
        .await
        .exits(0, "create ValidatingAdmissionPolicy fedgate-karmada-writes");
    case.runs(&wish).await;
    karmada_writes_for_tenants_only(case, new).await;
    departure(case, new, &wish, &both).await;
    refused(&credential).await;
}

/// A credential with an address of the hub that only the cell reaches is made once.
async fn kept_for_another_address(new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let there = new.credential.with_extension("there.yaml");
    let join = [join, &["--hub-endpoint", "https://127.0.0.1:1"]].concat();
    let all = [both, &[("--credential-out", there.as_path())]].concat();
    fedgate(&join, &all).await.exits(0, "cell iad-1 serves IAD");
    let made = std::fs::read_to_string(&there).expect("read the credential");
    assert!(made.contains("https://127.0.0.1:1"));
    fedgate(&join, &all).await.exits(0, "nothing to change");
    assert_eq!(std::fs::read_to_string(&there).expect("read it"), made);

    // Another authority of the hub replaces the former one, beside the same token.
    let key = rcgen::KeyPair::generate().expect("a key");
    let former = rcgen::CertificateParams::default().self_signed(&key);
    let former = former.expect("a certificate").pem().into_bytes();
    let mut old: Value = serde_json::from_str(&made).expect("the credential is JSON");
    old["clusters"][0]["cluster"]["certificate-authority-data"] = json!(k8s_openapi::ByteString(former));
    std::fs::write(&there, old.to_string()).expect("write it");
    fedgate(&join, &all).await.exits(0, "cell iad-1 serves IAD");
    assert_eq!(std::fs::read_to_string(&there).expect("read it"), made);
}

/// The token that Karmada has for the cell, as a kubeconfig.
async fn of_karmada(case: &Case, new: &NewCell) -> String {
    let secret = case.hub.get(&SECRET, "karmada-cluster", NEW.0).await;
    let token = secret.expect("the Secret is there")["data"]["token"].clone();
    let token: k8s_openapi::ByteString = serde_json::from_value(token).expect("base64");
    with_token(&new.cell, std::str::from_utf8(&token.0).expect("a token is text"))
}

async fn accepted(kubeconfig: &str) {
    let client = client(kubeconfig).await;
    client
        .apiserver_version()
        .await
        .expect("the credential is accepted");
}

/// Karmada gets a new token for the cell, the old one ends only when Karmada has read it, and nothing else changes.
async fn rotated(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let name = NEW.0;
    let rotate = ["cells", "credential", name, "rotate"];
    fedgate(&rotate, &both[..1])
        .await
        .exits(2, "--cell-kubeconfig FILE");
    let old = of_karmada(case, new).await;
    fedgate(&[&rotate[..], &["--dry-run"]].concat(), both)
        .await
        .exits(0, "create Secret karmada-cluster/karmada-iad-1-1 (dry run)");
    assert_eq!(of_karmada(case, new).await, old);

    fedgate(&[&rotate[..], &["--keep-old-tokens"]].concat(), both)
        .await
        .exits(0, "the older tokens stay valid");
    let present = of_karmada(case, new).await;
    assert_ne!(present, old);
    accepted(&old).await;
    accepted(&present).await;
    // A join goes on with the new token.
    fedgate(join, both).await.exits(0, "nothing to change");
    assert_eq!(of_karmada(case, new).await, present);

    // Karmada may not have read it yet.
    fedgate(&[&rotate[..], &["--wait", "1s"]].concat(), both)
        .await
        .exits(8, "run the command again then");
    accepted(&old).await;
    let earlier = json!({"metadata": {"annotations": {"fedgate.dev/rotated-at": "2026-01-01T00:00:00Z"}}});
    case.hub.merge(&SECRET, "karmada-cluster", name, earlier).await;
    fedgate(&rotate, both).await.exits(0, "the old one has ended");
    refused(&old).await;
    accepted(&present).await;
    assert_eq!(of_karmada(case, new).await, present);
    fedgate(join, both).await.exits(0, "nothing to change");
}

/// A dry run and the printed objects show no credential and write nothing.
async fn preview(case: &Case, new: &NewCell, join: &[&str], both: &[(&str, &Path)]) {
    let (name, plane) = (NEW.0, &new.role.plane);
    let dry = [join, &["--dry-run"]].concat();
    fedgate(&dry, both)
        .await
        .exits(0, "create ServiceAccount karmada-cluster/karmada-iad-1");
    let printed = [join, &["-o", "yaml"]].concat();
    let printed = fedgate(&printed, both).await.exits(0, "kind: ClusterRoleBinding");
    assert!(!printed.stdout.contains("token:"), "{}", printed.stdout);
    assert!(case.hub.get(&CLUSTER, "", name).await.is_none());
    assert!(plane.get(&NAMESPACE, "", "karmada-cluster").await.is_none());
}

/// Karmada's account at the cell writes to Namespaces of tenants, and makes no token of another account.
async fn karmada_writes_for_tenants_only(case: &Case, new: &NewCell) {
    let text = of_karmada(case, new).await;
    let karmada = Plane::new("karmada at the cell", client(&text).await);
    let meta = |name: &str| json!({"metadata": {"name": name}});
    let mut minted = meta("stolen");
    minted["type"] = json!("kubernetes.io/service-account-token");
    minted["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": "default"});
    crate::support::wait_for(
        "Karmada's account may not write everywhere",
        crate::support::seconds(30),
        || async { (!karmada.would_create(&CONFIG_MAP, "kube-system", meta("x")).await).then_some(()) },
    )
    .await;
    assert!(karmada.would_create(&CONFIG_MAP, &case.hub_ns, meta("x")).await);
    assert!(karmada.would_create(&NAMESPACE, "", meta("ns-x")).await);
    assert!(!karmada.would_create(&CONFIG_MAP, "kube-system", meta("x")).await);
    assert!(!karmada.would_create(&NAMESPACE, "", meta("x")).await);
    assert!(!karmada.would_create(&SECRET, &case.hub_ns, minted).await);
    assert!(!karmada.would_create(&CLUSTER_ROLE, "", meta("x")).await);
}

/// A cell in use stays; drained, it leaves, and nothing of it is left.
async fn departure(case: &Case, new: &NewCell, wish: &Wish, both: &[(&str, &Path)]) {
    let (name, plane) = (NEW.0, &new.role.plane);
    // A cell in use does not go, and the only one of its city is not drained.
    let leave = ["cells", "leave", name];
    fedgate(&leave, both).await.exits(4, "web-us-iad");
    fedgate(&["cells", "drain", name], both)
        .await
        .exits(4, "LastCellOfCity");
    assert!(case.hub.get(&CLUSTER, "", name).await.expect("it is there")["spec"]["taints"].is_array());
    fedgate(&["cells", "uncordon", name], &both[..1])
        .await
        .exits(0, "patch Cluster iad-1");
    case.delete(wish).await;
    fedgate(
        &["cells", "drain", name, "--allow-outage", "--timeout", "2m"],
        both,
    )
    .await
    .exits(0, "is drained");
    fedgate(&["cells", "drain", name], both)
        .await
        .exits(0, "nothing to change");
    new.role.stop().await;

    // It comes back while Kubernetes still ends what it has left, and goes for good.
    fedgate(&leave, both).await.exits(0, "cell iad-1 has left");
    fedgate(&["cells", "join", name, "--city", NEW.1], both)
        .await
        .exits(0, "cell iad-1 serves IAD");
    // Namespaces of its city that nobody uses are bound to it until they go.
    fedgate(
        &["cells", "drain", name, "--allow-outage", "--timeout", "2m"],
        both,
    )
    .await
    .exits(0, "is drained");
    let left = fedgate(&leave, both).await.exits(0, "cell iad-1 has left");
    assert!(!left.stderr.contains("stays"), "{}", left.stderr);
    fedgate(&leave, both)
        .await
        .exits(0, "nothing is left of cell iad-1");
    assert!(case.hub.get(&CLUSTER, "", name).await.is_none());
    assert!(case.hub.get(&SECRET, "karmada-cluster", name).await.is_none());
    assert!(
        case.hub
            .get(&SERVICE_ACCOUNT, "fedgate-cells", name)
            .await
            .is_none()
    );
    let secrets = plane.list(&SECRET, "", "fedgate.dev/made-by").await;
    assert!(secrets.is_empty(), "{secrets:#?}");
    let roles = plane.list(&CLUSTER_ROLE, "", "fedgate.dev/made-by").await;
    assert!(roles.is_empty(), "{roles:#?}");
    let definitions = plane.list(&DEFINITION, "", "fedgate.dev/made-by").await;
    assert!(definitions.is_empty(), "{definitions:#?}");
    for namespace in ["karmada-cluster", "fedgate-system"] {
        plane
            .gone(&NAMESPACE, "", namespace, crate::support::seconds(60))
            .await;
    }
}

async fn m02_a_project_is_added_rotated_and_removed_by_commands(case: Case) {
    let new = case.suite.new_cell().await;
    let both = [
        ("--hub-kubeconfig", new.hub.as_path()),
        ("--project-kubeconfig", new.project.as_path()),
    ];
    let read = async || {
        let secret = case
            .hub
            .get(&SECRET, "fedgate-system", "trial")
            .await
            .expect("the Secret is there");
        assert_eq!(secret["metadata"]["labels"]["fedgate.dev/project"], "true");
        let text = secret["data"]["kubeconfig"].clone();
        let text: k8s_openapi::ByteString = serde_json::from_value(text).expect("base64");
        String::from_utf8(text.0).expect("a kubeconfig is text")
    };
    fedgate(&["projects", "add", "trial"], &both)
        .await
        .exits(0, "project trial is engaged");
    let first = read().await;
    client(&first)
        .await
        .apiserver_version()
        .await
        .expect("the credential is accepted");

    let logs = [&case.suite.hub_log, &case.suite.alpha_log];
    let marks = logs.map(AuditLog::mark);
    fedgate(&["projects", "add", "trial"], &both)
        .await
        .exits(0, "nothing to change");
    assert_eq!(writes(&logs, &marks), [""; 0]);
    fedgate(&["projects", "list"], &both[..1]).await.exits(0, "trial");

    fedgate(&["projects", "rotate", "trial"], &both)
        .await
        .exits(0, "project trial is engaged");
    let second = read().await;
    assert_ne!(first, second);
    refused(&first).await;
    client(&second)
        .await
        .apiserver_version()
        .await
        .expect("the credential is accepted");

    // Whatever else runs in the project, this does.
    let wish = Wish::new("busy", 1);
    case.run(&wish).await;
    fedgate(&["projects", "remove", "trial"], &both)
        .await
        .exits(4, "project trial is in use");
    assert!(case.hub.get(&SECRET, "fedgate-system", "trial").await.is_some());
    fedgate(&["projects", "remove", "trial", "--force"], &both)
        .await
        .exits(0, "project trial is removed");
    case.runs(&wish).await;
    refused(&second).await;
    assert!(case.hub.get(&SECRET, "fedgate-system", "trial").await.is_none());
    fedgate(&["projects", "remove", "trial"], &both)
        .await
        .exits(0, "nothing is left of project trial");
    fedgate(&["projects", "rotate", "trial"], &both)
        .await
        .exits(3, "has no project trial");
}
