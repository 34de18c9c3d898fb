//! Output of `fedgate-sandbox status` and `env`.

use super::{
    child,
    process::get,
    state::{PlaneState, State},
};
use fedgate_terminal::table::{Cell, Table};
use futures::future::join_all;
use rustix::process::{Pid, test_kill_process};
use std::{fmt::Write, path::Path};

/// Planes with their answers, processes with their logs, and what to type next.
pub(super) async fn table(state: &State) -> String {
    let answers = join_all(state.planes.iter().map(|plane| answer(state, plane))).await;
    let mut planes = Table::new(&["PLANE", "ROLE", "ADDRESS", "READY"]);
    for (plane, answer) in state.planes.iter().zip(answers) {
        let role = plane.role.as_str();
        planes.row([&*plane.name, role, &plane.url, &answer].map(Cell::from).into());
    }
    let mut processes = Table::new(&["PROCESS", "STATE", "HOLDER", "LOG"]);
    for process in &state.processes {
        let running = i32::try_from(process.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| test_kill_process(pid).is_ok());
        let state = if running { "running" } else { "ENDED" };
        let (pid, log) = (process.pid.to_string(), process.log.display().to_string());
        processes.row([process.name.as_str(), state, &pid, &log].map(Cell::from).into());
    }
    let names: Vec<&str> = state.planes.iter().map(|plane| plane.name.as_str()).collect();
    let played = state.played.iter().map(|line| format!("{line}\n"));
    format!(
        "{}\n{}\n{}kubectl: export KUBECONFIG={}\n\
         \x20        kubectl --context hub get clusters     (contexts: {})\n",
        planes.text(4, true, false),
        processes.text(4, true, false),
        played.collect::<String>(),
        quoted(&state.kubeconfig),
        names.join(", ")
    )
}

/// Shell commands for kubectl and for the gateway, which takes its own credentials.
pub(super) fn environment(state: &State) -> String {
    let mut out = String::new();
    let (mode, projects) = match &state.platform_kubeconfig {
        Some(file) => (
            "milo",
            vec![
                ("FEDGATE_DISCOVERY_KUBECONFIG", file),
                ("FEDGATE_PROJECT_KUBECONFIG", file),
            ],
        ),
        None => (
            "directory",
            vec![("FEDGATE_PROJECT_DIRECTORY", &state.project_kubeconfigs)],
        ),
    };
    let planes = [
        ("KUBECONFIG", &state.kubeconfig),
        ("FEDGATE_HUB_KUBECONFIG", &state.hub_kubeconfig),
    ];
    for (name, path) in planes.into_iter().chain(projects) {
        let _ = writeln!(out, "export {name}={}", quoted(path));
    }
    let _ = writeln!(out, "export FEDGATE_PROJECT_MODE={mode}");
    out
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

async fn answer(state: &State, plane: &PlaneState) -> String {
    let client = match child::client(&state.kubeconfig, Some(&plane.name)).await {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    get(&client, "/readyz")
        .await
        .map_or_else(|error| format!("NO: {error}"), |()| "yes".to_owned())
}
