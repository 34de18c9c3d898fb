//! A sandbox in the background: `up` starts a supervisor and waits until that says that all is ready.

use super::{
    Options, Progress, Sandbox,
    commands::executable,
    error::{cannot, in_use},
    layout::Layout,
    process::failure,
};
use anyhow::{Context, bail};
use std::{fs::File, io::Write, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    signal::unix::{SignalKind, signal},
};

/// The last line of a supervisor; those before it are for people.
const READY: &str = "ready";

/// Prints a line. An error is ignored, because the program that started the supervisor may have ended.
fn report(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Starts a supervisor that outlives this process, shows its progress and answers when the sandbox is ready.
///
/// An interrupt before that ends the supervisor and all it has started.
pub(super) async fn up(layout: &Layout, progress: &Progress) -> anyhow::Result<()> {
    std::fs::create_dir_all(&layout.dir).with_context(cannot("create folder", &layout.dir))?;
    if layout.owner().await?.is_some() {
        return Err(in_use(&layout.dir));
    }
    let log = layout.supervisor_log();
    let err = File::create(&log).with_context(cannot("create", &log))?;
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
        .with_context(cannot("start", &program))?;
    let out = supervisor.stdout.take();
    let mut lines = BufReader::new(out.context("the supervisor has no standard output")?).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            _ = tokio::signal::ctrl_c() => {
                // Its end closes the pipes of all holders.
                let _ = supervisor.kill().await;
                layout.processes_gone().await?;
                bail!("interrupted; nothing is left running");
            }
        };
        match line {
            Ok(Some(line)) if line == READY => return Ok(()),
            Ok(Some(line)) => progress.say(&line),
            _ => {
                let how = supervisor.wait().await.context("wait for the supervisor")?;
                let what = format!("ended while starting ({how})");
                return Err(failure("the supervisor", what, &log, "nothing is left running"));
            }
        }
    }
}

/// Brings a sandbox up, reports on standard output, and owns the sandbox until SIGTERM or SIGINT.
pub(super) async fn supervise(
    options: impl FnOnce(Progress) -> anyhow::Result<Options>,
) -> anyhow::Result<()> {
    let watch = |kind| signal(kind).context("cannot watch for signals");
    let (mut terminate, mut interrupt) = (watch(SignalKind::terminate())?, watch(SignalKind::interrupt())?);
    // Watched so that it does not end the process: the terminal it was started from may go.
    let _hangup = watch(SignalKind::hangup())?;
    let ends = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::pin!(ends);
    let sandbox = tokio::select! {
        sandbox = async { Sandbox::up(options(Progress::new(report))?).await } => sandbox?,
        () = &mut ends => return Ok(()),
    };
    report(READY);
    ends.await;
    sandbox.down().await
}
