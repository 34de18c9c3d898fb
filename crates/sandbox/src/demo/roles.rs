//! The gateway and the cells as processes of the sandbox, each under its own certificate.

use super::kinds::INTERPRETER;
use crate::{
    CellSpec, Sandbox, SandboxError, User,
    kubeconfig::plain_client,
    ports::free_port,
    process::{Process, Spec},
};
use futures::future::{try_join, try_join_all};
use kube_runtime::wait::{await_condition, conditions};
use std::{path::Path, time::Duration};

/// Waiting times that are minutes in production, so that the demonstration need not wait for them.
pub(super) const SHORT_TIMES: [(&str, &str); 5] = [
    ("--city-linger", "1s"),
    ("--unused-city-set-after", "1s"),
    ("--hub-namespace-retention", "1s"),
    ("--orphan-after", "1s"),
    ("--sweep-interval", "5s"),
];
const INTERPRETER_WITHIN: Duration = Duration::from_mins(1);

/// A role that runs.
pub(super) struct Role {
    pub(super) process: Process,
    /// For `/metrics` and the like.
    pub(super) address: String,
}

/// Starts `fedgate gateway` for the hub and all projects, and `fedgate cell` for each cell, and waits until all are
/// ready. The gateway is the first.
pub(super) async fn start(sandbox: &Sandbox, cells: &[CellSpec]) -> Result<Vec<Role>, SandboxError> {
    let cells = try_join_all(cells.iter().map(|cell| start_cell(sandbox, &cell.name)));
    let (gateway, cells) = try_join(start_gateway(sandbox), cells).await?;
    Ok(std::iter::once(gateway).chain(cells).collect())
}

async fn start_gateway(sandbox: &Sandbox) -> Result<Role, SandboxError> {
    let hub = shown(&sandbox.kubeconfig("hub", User::Gateway));
    let projects = shown(&sandbox.project_kubeconfigs());
    let own = [
        ("--project-mode", "directory"),
        ("--hub-kubeconfig", &hub),
        ("--project-directory", &projects),
    ];
    let flags = own.into_iter().chain(SHORT_TIMES);
    let role = start_role(sandbox, "gateway", "gateway", flags).await?;
    let api = INTERPRETER.api(sandbox.client("hub", User::Admin)?, "");
    let applied = await_condition(api, "workloaddeployment", conditions::is_created());
    match tokio::time::timeout(INTERPRETER_WITHIN, applied).await {
        Ok(Ok(_)) => Ok(role),
        _ => Err(role.process.failure(
            format!(
                "has not applied the interpreter in {} s",
                INTERPRETER_WITHIN.as_secs()
            ),
            "read the whole log",
        )),
    }
}

async fn start_cell(sandbox: &Sandbox, name: &str) -> Result<Role, SandboxError> {
    let own = shown(&sandbox.kubeconfig(name, User::Cell(name)));
    let hub = shown(&sandbox.kubeconfig("hub", User::Cell(name)));
    let quota = shown(&sandbox.quota_kubeconfigs(name));
    let flags = [
        ("--cell-kubeconfig", own.as_str()),
        ("--hub-kubeconfig", &hub),
        ("--name", name),
        ("--networking", "true"),
        ("--quota-directory", &quota),
    ];
    start_role(sandbox, &process_name(name), "cell", flags).await
}

/// Name of the process that is the role of a cell.
pub(super) fn process_name(cell: &str) -> String {
    format!("{cell} cell")
}

async fn start_role<'a>(
    sandbox: &Sandbox,
    name: &str,
    role: &str,
    flags: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Role, SandboxError> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut args: Vec<String> = [role, "--log-format", "json", "--admin-address", &address]
        .map(str::to_owned)
        .to_vec();
    for (flag, value) in flags {
        args.extend([flag.to_owned(), value.to_owned()]);
    }
    let process = sandbox.launcher.start(&Spec {
        name: name.to_owned(),
        // Cargo builds and installs the two side by side.
        program: sandbox.launcher.holder.with_file_name("fedgate"),
        args,
    })?;
    let client = plain_client(name, &format!("http://{address}"))?;
    process.ready(&client, "/readyz").await?;
    Ok(Role { process, address })
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
