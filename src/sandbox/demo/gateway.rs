//! The gateway as a process of the sandbox, under its own certificate.

use super::kinds::INTERPRETER;
use crate::sandbox::{
    Sandbox, SandboxError, User, kubeconfig::plain_client, ports::free_port, process::Process, process::Spec,
};
use kube::runtime::wait::{await_condition, conditions};
use std::time::Duration;

/// Waiting times that are minutes in production, so that the demonstration need not wait for them.
pub(super) const SHORT_TIMES: [(&str, &str); 5] = [
    ("--city-linger", "3s"),
    ("--unused-city-set-after", "3s"),
    ("--hub-namespace-retention", "3s"),
    ("--orphan-after", "3s"),
    ("--sweep-interval", "5s"),
];
const INTERPRETER_WITHIN: Duration = Duration::from_mins(1);

/// Starts `fedgate gateway` for the hub and all projects and waits until it is ready; answers its process and its
/// address for `/metrics` and the like.
pub(super) async fn start(sandbox: &Sandbox) -> Result<(Process, String), SandboxError> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let hub = sandbox.kubeconfig("hub", User::Gateway).display().to_string();
    let projects = sandbox.project_kubeconfigs().display().to_string();
    let mut args: Vec<String> = ["gateway", "--project-mode", "directory", "--log-format", "json"]
        .map(str::to_owned)
        .to_vec();
    for (flag, value) in [
        ("--hub-kubeconfig", hub.as_str()),
        ("--project-directory", &projects),
        ("--admin-address", &address),
    ]
    .into_iter()
    .chain(SHORT_TIMES)
    {
        args.extend([flag.to_owned(), value.to_owned()]);
    }
    let process = sandbox.launcher.start(&Spec {
        name: "gateway".to_owned(),
        program: sandbox.launcher.holder.clone(),
        args,
    })?;
    let client = plain_client("gateway", &format!("http://{address}"))?;
    process.ready(&client, "/readyz").await?;
    let api = INTERPRETER.api(sandbox.client("hub", User::Admin)?, "");
    let applied = await_condition(api, "workloaddeployment", conditions::is_created());
    match tokio::time::timeout(INTERPRETER_WITHIN, applied).await {
        Ok(Ok(_)) => Ok((process, address)),
        _ => Err(process.failure(
            format!(
                "has not applied the interpreter in {} s",
                INTERPRETER_WITHIN.as_secs()
            ),
            "read the whole log",
        )),
    }
}
