//! What `fedgate-sandbox status` and `env` print.

use super::{
    process::get,
    state::{PlaneState, State},
};
use futures::future::join_all;
use rustix::process::{Pid, test_kill_process};
use std::{fmt::Write, path::Path};

/// Planes with their answers, processes with their logs, and what to type next.
pub(super) async fn table(state: &State) -> String {
    let mut out = String::new();
    let answers = join_all(state.planes.iter().map(|plane| answer(state, plane))).await;
    let mut rows = vec![["PLANE", "ROLE", "ADDRESS", "READY"].map(String::from)];
    for (plane, answer) in state.planes.iter().zip(answers) {
        rows.push([
            plane.name.clone(),
            plane.role.to_string(),
            plane.url.clone(),
            answer,
        ]);
    }
    columns(&mut out, &rows);
    out.push('\n');
    let mut rows = vec![["PROCESS", "STATE", "HOLDER", "LOG"].map(String::from)];
    for process in &state.processes {
        let running = i32::try_from(process.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| test_kill_process(pid).is_ok());
        let log = process.log.display().to_string();
        let state = if running { "running" } else { "ENDED" };
        rows.push([
            process.name.clone(),
            state.to_owned(),
            process.pid.to_string(),
            log,
        ]);
    }
    columns(&mut out, &rows);
    let _ = writeln!(out, "\nhub controllers: {}", state.hub_controllers);
    for line in &state.played {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "kubectl: export KUBECONFIG={}", quoted(&state.kubeconfig));
    let names: Vec<&str> = state.planes.iter().map(|plane| plane.name.as_str()).collect();
    let _ = writeln!(
        out,
        "         kubectl --context hub get clusters     (contexts: {})",
        names.join(", ")
    );
    out
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
    let loaded = match fedgate_kubeconfig::load(Some(&state.kubeconfig), Some(&plane.name), false).await {
        Ok(loaded) => loaded,
        Err(error) => return error.to_string(),
    };
    let client = match fedgate_kubeconfig::client(&loaded.config) {
        Ok(client) => client.build(),
        Err(error) => return error.to_string(),
    };
    get(&client, "/readyz")
        .await
        .map_or_else(|error| format!("NO: {error}"), |()| "yes".to_owned())
}

fn columns<const N: usize>(out: &mut String, rows: &[[String; N]]) {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    for row in rows {
        for (index, (cell, width)) in row.iter().zip(widths).enumerate() {
            if index + 1 == N {
                let _ = writeln!(out, "{cell}");
            } else {
                let _ = write!(out, "{cell:<width$}   ");
            }
        }
    }
}
