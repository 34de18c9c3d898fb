//! `kubectl compute` as a separate process, by a user of the test's own in the test's namespace.

use super::case::Case;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::Command;

/// Groups of a user who may do anything.
pub(crate) const ADMINISTRATORS: &[&str] = &["system:masters"];

/// One user of the command line.
pub(crate) struct Compute {
    pub(crate) kubeconfig: PathBuf,
    /// Where the user's files are.
    folder: PathBuf,
    pub(crate) project: String,
    pub(crate) namespace: String,
    /// The name under which audit logs and histories have the user.
    pub(crate) user: String,
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The run, which ended with this code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        self
    }

    /// The rows of a table, each with its cells, without the heading.
    pub(crate) fn rows(&self) -> Vec<Vec<&str>> {
        self.stdout
            .lines()
            .skip(1)
            .map(|line| {
                line.split("   ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect()
    }

    /// The result as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// Cargo builds the executables of all packages side by side.
fn executable() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_fedgate")).with_file_name("kubectl-compute");
    assert!(path.exists(), "build {} first: make build", path.display());
    path
}

impl Compute {
    /// A user of these groups, whom the administrator plays on every plane.
    pub(crate) fn new(case: &Case, user: &str, groups: &[&str]) -> Self {
        let user = format!("{user}@{}", case.ns);
        let text =
            std::fs::read_to_string(&case.suite.kubeconfig).expect("read the administrator's kubeconfig");
        let mut config: Value = serde_saphyr::from_str(&text).expect("a kubeconfig");
        config["current-context"] = json!(case.project.name);
        for context in config["contexts"].as_array_mut().into_iter().flatten() {
            context["context"]["namespace"] = json!(case.ns);
        }
        let login = &mut config["users"][0]["user"];
        login["as"] = json!(user);
        login["as-groups"] = json!(groups);
        let folder = case.suite.dir.join(&user);
        std::fs::create_dir_all(&folder).expect("make a folder");
        let kubeconfig = folder.join("kubeconfig");
        std::fs::write(&kubeconfig, config.to_string()).expect("write a kubeconfig");
        Self {
            kubeconfig,
            folder,
            project: case.project.name.clone(),
            namespace: case.ns.clone(),
            user,
        }
    }

    /// A user who may do anything.
    pub(crate) fn administrator(case: &Case, user: &str) -> Self {
        Self::new(case, user, ADMINISTRATORS)
    }

    /// Runs a command to its end, without a terminal.
    pub(crate) async fn run(&self, words: &[&str]) -> Ended {
        let mut command = self.command(words);
        let output = command.output().await.expect("run kubectl-compute");
        Ended {
            code: output.status.code().expect("it was not killed"),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command to its end; returns its exit code, and all that a terminal would show.
    pub(crate) async fn transcript(&self, words: &[&str]) -> (i32, String) {
        let (mut reader, writer) = std::io::pipe().expect("open a pipe");
        let mut command = self.command(words);
        command.stdin(Stdio::null());
        command.stdout(writer.try_clone().expect("a second end"));
        command.stderr(writer);
        let mut child = command.spawn().expect("run kubectl-compute");
        // The command has ends of the pipe, too.
        drop(command);
        let text = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut reader, &mut text).map(|_| text)
        });
        let text = text.await.expect("the reader ends").expect("text");
        let ended = child.wait().await.expect("it ends");
        (ended.code().expect("it was not killed"), text)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(executable());
        command
            .args(words)
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(&self.folder)
            .kill_on_drop(true);
        command
    }
}
