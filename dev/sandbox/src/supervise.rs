//! A sandbox in the background: `up` starts a supervisor and waits until that says that all is ready.

use super::{Options, Progress, Sandbox, SandboxError, commands::executable, layout::Layout, process::tail};
use serde::{Deserialize, Serialize};
use std::{io::Write, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    signal::unix::{SignalKind, signal},
};

/// Messages of the supervisor on its standard output: a JSON object in each line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Report {
    /// A line for people.
    Progress(String),
    /// The sandbox is ready; no message follows.
    Ready,
    /// The sandbox could not be started.
    Failed(String),
}

/// Prints a message. An error is ignored, because the program that started the supervisor may have ended.
fn report(report: &Report) {
    if let Ok(line) = serde_json::to_string(report) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// Starts a supervisor that outlives this process, shows its progress and answers when the sandbox is ready.
///
/// An interrupt before that ends the supervisor and all it has started.
pub(super) async fn up(layout: &Layout, progress: &Progress) -> Result<(), SandboxError> {
    std::fs::create_dir_all(&layout.dir).map_err(SandboxError::io("create folder", &layout.dir))?;
    if layout.owner().await?.is_some() {
        return Err(SandboxError::InUse(layout.dir.clone()));
    }
    let log = layout.supervisor_log();
    let err = std::fs::File::create(&log).map_err(SandboxError::io("create", &log))?;
    let program = executable()?;
    let mut supervisor = tokio::process::Command::new(&program)
        // With the arguments of `up`.
        .arg("supervise")
        .args(std::env::args_os().skip(2))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(err)
        // A group of its own: what the terminal sends to the foreground does not reach it.
        .process_group(0)
        .spawn()
        .map_err(SandboxError::io("start", &program))?;
    let Some(out) = supervisor.stdout.take() else {
        return Err(SandboxError::Options(
            "the supervisor has no standard output".to_owned(),
        ));
    };
    let mut lines = BufReader::new(out).lines();
    let failure = |what: String| SandboxError::Process {
        process: "the supervisor".to_owned(),
        what,
        tail: tail(&log),
        log: log.clone(),
        next: "read the message above; nothing is left running".to_owned(),
    };
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            _ = tokio::signal::ctrl_c() => {
                // Its end closes the pipes of all holders.
                let _ = supervisor.kill().await;
                layout.processes_gone().await?;
                return Err(SandboxError::Options("interrupted; nothing is left running".to_owned()));
            }
        };
        let Ok(Some(line)) = line else {
            let how = supervisor
                .wait()
                .await
                .map_or_else(|e| e.to_string(), |status| status.to_string());
            return Err(failure(format!("ended while starting ({how})")));
        };
        match serde_json::from_str(&line) {
            Ok(Report::Progress(text)) => progress.say(&text),
            Ok(Report::Ready) => return Ok(()),
            Ok(Report::Failed(error)) => {
                let _ = supervisor.wait().await;
                return Err(SandboxError::Options(error));
            }
            Err(_) => return Err(failure(format!("said what is not understood: {line}"))),
        }
    }
}

/// Brings a sandbox up, reports on standard output, and owns the sandbox until SIGTERM or SIGINT.
pub(super) async fn supervise(
    options: impl FnOnce(Progress) -> Result<Options, SandboxError>,
) -> Result<(), SandboxError> {
    let watch =
        |kind| signal(kind).map_err(|e| SandboxError::Options(format!("cannot watch for signals: {e}")));
    let (mut terminate, mut interrupt) = (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    // Watched so that it does not end the process: the terminal it was started from may go.
    let _hangup = watch(SignalKind::hangup())?;
    let starting = async {
        let progress = Progress::new(|line| report(&Report::Progress(line.to_owned())));
        Sandbox::up(options(progress)?).await
    };
    let sandbox = tokio::select! {
        result = starting => match result {
            Ok(sandbox) => sandbox,
            Err(error) => {
                report(&Report::Failed(error.to_string()));
                return Err(error);
            }
        },
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    report(&Report::Ready);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sandbox.down().await
}
