//! Karmada's own agent, run as the Deployment of `join` says.

use crate::support::{
    audit::AuditLog,
    credentials::with_token,
    kinds::{Kind, SECRET, kind},
    seconds,
    suite::NewCell,
};
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
};
use kube::{Api, api::PostParams};
use serde_json::Value;
use std::{path::PathBuf, process::Stdio};
use tokio::process::{Child, Command};

pub(super) const PODS: Kind = kind("apps", "v1", "Deployment", "deployments", true);
pub(crate) const WITHIN: &str = "karmada-system";
pub(super) const SECRET_NAME: &str = "karmada-kubeconfig";

const AGENT: &str = "system:karmada:agent:iad-1";
const AT_CELL: &str = "system:serviceaccount:karmada-system:karmada-agent-sa";

/// True with real Karmada, whose agent runs.
pub(super) fn is_karmada() -> bool {
    std::env::var_os("KARMADA_BIN_DIR").is_some()
}

/// The executable of karmada-agent; `None` with the stand-in.
pub(super) fn executable() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("KARMADA_BIN_DIR")?);
    ["karmada-agent", "agent"]
        .iter()
        .map(|name| dir.join(name))
        .find(|path| path.is_file())
}

/// A running karmada-agent.
pub(crate) struct Agent {
    child: Child,
}

impl Agent {
    /// Starts it as the Deployment says, with its account's rights at the cell and its certificate on the hub.
    pub(super) async fn start(new: &NewCell, deployment: &Value, further: &[&str]) -> Self {
        let program = executable().expect("karmada-agent is in KARMADA_BIN_DIR");
        let dir = new.credential.parent().expect("it is in a folder");
        let (hub, cell) = (dir.join("agent-hub.yaml"), dir.join("agent-cell.yaml"));
        std::fs::write(&hub, of_agent(new).await).expect("write the kubeconfig of the hub");
        std::fs::write(&cell, with_token(&new.cell, &token(new).await))
            .expect("write the kubeconfig of the cell");
        let log = std::fs::File::create(dir.join("karmada-agent.txt")).expect("create the log");
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let given = container["args"].as_array().expect("it has arguments").iter();
        let args = given.map(|arg| match arg.as_str().expect("an argument is text") {
            kubeconfig if kubeconfig.starts_with("--karmada-kubeconfig=") => {
                format!("--karmada-kubeconfig={}", hub.display())
            }
            other => other.to_owned(),
        });
        let child = Command::new(program)
            .args(args)
            // There is one machine for all Pods.
            .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .args(further)
            .env("KUBECONFIG", cell)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("start karmada-agent");
        Self { child }
    }

    /// Kills it, and waits for its end.
    pub(super) async fn end(mut self) {
        self.child.kill().await.expect("end karmada-agent");
    }
}

/// The agent's kubeconfig of the hub.
pub(super) async fn of_agent(new: &NewCell) -> String {
    let secret = new.role.plane.get(&SECRET, WITHIN, SECRET_NAME).await;
    let secret = secret.expect("the Secret is there");
    assert!(secret["data"]["pending-key"].is_null(), "{:?}", secret["data"]);
    let text: ByteString = serde_json::from_value(secret["data"][SECRET_NAME].clone()).expect("base64");
    String::from_utf8(text.0).expect("a kubeconfig is text")
}

/// A token of the agent's account at the cell, as its Pod would get it.
pub(super) async fn token(new: &NewCell) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(new.role.plane.client(), WITHIN);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(3_600),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request("karmada-agent-sa", &PostParams::default(), &request)
        .await;
    let status = answer.expect("a token for the account").status;
    let token = status.and_then(|status| status.token);
    token.expect("a token request is answered")
}

/// Ends the agent with its Deployment.
pub(crate) async fn stopped(new: &NewCell, agent: Option<Agent>) {
    let plane = &new.role.plane;
    plane.gone(&PODS, WITHIN, "karmada-agent", seconds(120)).await;
    if let Some(agent) = agent {
        agent.end().await;
    }
}

/// The agent was refused nothing, on the hub or at the cell: it has all the rights that it uses.
pub(crate) fn refused_nowhere(logs: [&AuditLog; 2], marks: [u64; 2]) {
    for ((log, mark), user) in logs.iter().zip(marks).zip([AGENT, AT_CELL]) {
        let entries = log.since(mark, user);
        assert!(!is_karmada() || !entries.is_empty(), "{user} runs");
        let refused: Vec<String> = entries
            .iter()
            .filter(|entry| entry.user.username == user && entry.response_status.code == 403)
            .map(|entry| {
                format!(
                    "{} {}: {}",
                    entry.action(),
                    entry.object_ref.name,
                    entry.response_status.message
                )
            })
            .collect();
        assert_eq!(refused, [""; 0], "{user}");
    }
}
