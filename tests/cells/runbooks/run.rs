//! Commands of runbooks, as an operator runs them at the desk.

use super::{
    desk::Desk,
    shows::{State, shown},
    usage,
};
use crate::{
    operator::PODS,
    support::{seconds, suite::LAB},
};
use fedgate_sandbox::Sandbox;
use std::{fmt::Write, process::Stdio, time::Duration};
use tokio::process::Command;

/// A command that goes on by itself is ended after this time.
const PATIENCE: Duration = seconds(40);
/// How long a command that follows is watched.
const FOLLOWED: Duration = seconds(4);

/// The output of a command.
struct Ran {
    code: i32,
    text: String,
}

impl Desk {
    /// Runs a command of a runbook; why that shows not what it should, if it does not.
    pub(super) async fn fault(&self, state: State, command: &str) -> Option<String> {
        self.write_logs().await;
        if command.contains(" top ") {
            let pid = self.gateway.pid().await.expect("the gateway runs");
            usage::report(&self.host, &pid).await;
        }
        let ran = self.run(command).await;
        let Ran { code, text } = &ran;
        let mut shows = String::new();
        let _ = writeln!(shows, "--- {state:?}: {command} ({code})\n{text}");
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("shown.txt"));
        std::io::Write::write_all(&mut file.expect("open a file"), shows.as_bytes()).expect("write it");
        let Some(wanted) = shown(state, command) else {
            return Some(format!("no row for it: {shows}"));
        };
        let unusable = [
            "unknown flag",
            "unexpected argument",
            "doesn't have a resource type",
            "unrecognized subcommand",
        ];
        let well = wanted.is(*code, text) && !unusable.iter().any(|words| text.contains(words));
        (!well).then(|| format!("{wanted:?} was expected: {shows}"))
    }

    async fn run(&self, command: &str) -> Ran {
        let command = command.replace("default/web", &format!("{}/web", self.case.ns));
        let words: Vec<&str> = command.split(' ').collect();
        let program = match words[0] {
            "kubectl" => self.kubectl.clone(),
            "fedgate" => env!("CARGO_BIN_EXE_fedgate").into(),
            other => panic!("{other} is no program of a runbook's Check"),
        };
        let follows = words.contains(&"-f") && words[1] == "journal";
        let child = Command::new(program)
            .args(&words[1..])
            .current_dir(&self.folder)
            .env("KUBECONFIG", self.folder.join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("run {command}: {error}"));
        let pid = child.id().expect("it runs");
        let ended = child.wait_with_output();
        tokio::pin!(ended);
        let limit = if follows { FOLLOWED } else { PATIENCE };
        let output = if let Ok(output) = tokio::time::timeout(limit, &mut ended).await {
            output
        } else {
            let _ = Command::new("kill")
                .args(["-INT", &pid.to_string()])
                .status()
                .await;
            ended.await
        };
        let output = output.expect("read its output");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            code: output.status.code().unwrap_or(-1),
            text: text(&output.stdout) + &text(&output.stderr),
        }
    }

    /// The gateway's log so far, as the container runtime of its Pods would have it.
    async fn write_logs(&self) {
        let lines = self.gateway.log_since(0);
        let lines = lines
            .iter()
            .map(|line| format!("2026-01-01T00:00:00.0Z stdout F {line}\n"));
        let text: String = lines.collect();
        let written = async |sandbox: &Sandbox| {
            for pod in PODS {
                std::fs::write(sandbox.container_log(LAB.0, pod), &text).expect("write a log");
            }
        };
        self.case.suite.with_sandbox(written).await;
    }
}
