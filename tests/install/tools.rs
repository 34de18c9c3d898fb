//! Helm and kubectl, which are built once.

use crate::root;
use fedgate_sandbox::Progress;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

pub(crate) static HELM: LazyLock<PathBuf> = LazyLock::new(|| match std::env::var_os("FEDGATE_HELM") {
    Some(path) => path.into(),
    None => built("helm"),
});
pub(crate) static KUBECTL: LazyLock<PathBuf> = LazyLock::new(|| built("kubectl"));

/// A program of the sandbox's Go modules.
pub(crate) fn built(program: &str) -> PathBuf {
    let progress = Progress::new(|line| eprintln!("install: {line}"));
    // A test may run inside of another runtime.
    std::thread::scope(|scope| {
        let build = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(fedgate_sandbox::program(program, &progress))
        });
        build.join().unwrap().unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Runs a program in the root of the project; what it prints, or what it complains of.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    run_with(program, arguments, &[], "")
}

/// As [`run`], with variables and a standard input.
pub(crate) fn run_with(
    program: &Path,
    arguments: &[&str],
    variables: &[(&str, &Path)],
    input: &str,
) -> Result<String, String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A program that reads nothing closes its end.
        scope.spawn(move || stdin.write_all(input.as_bytes()));
        child.wait_with_output().unwrap()
    });
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(printed)
    } else {
        Err(format!("{printed}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// As [`run`] of helm, where it has to succeed.
pub(crate) fn helm(arguments: &[&str]) -> String {
    run(&HELM, arguments).unwrap_or_else(|said| panic!("helm {arguments:?}: {said}"))
}

/// As [`run`] of kubectl, where it has to succeed.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    run(&KUBECTL, arguments).unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
}
