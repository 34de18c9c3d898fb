//! Runs promtool, which is built once.

use fedgate_sandbox::Progress;
use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::LazyLock,
};

static PROMTOOL: LazyLock<PathBuf> = LazyLock::new(|| {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let progress = Progress::new(|line| eprintln!("alerts: {line}"));
    runtime
        .block_on(fedgate_sandbox::program("promtool", &progress))
        .unwrap_or_else(|error| panic!("{error}"))
});

/// Runs it with this standard input; its output if it fails.
pub(crate) fn run(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(&*PROMTOOL)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // promtool reads all of it before it says anything.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() {
        Ok(said)
    } else {
        Err(said)
    }
}

/// As [`run`], where it has to succeed.
pub(crate) fn succeeds(arguments: &[&str], input: &str) -> String {
    run(arguments, input).unwrap_or_else(|said| panic!("promtool {arguments:?}: {said}"))
}

/// The complaints about metrics as a scrape has them.
pub(crate) fn complaints(scrape: &str) -> String {
    run(&["check", "metrics"], scrape).unwrap_or_else(|said| said)
}
