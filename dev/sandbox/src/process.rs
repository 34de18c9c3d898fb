//! Child processes: started through a holder, logged to a file, gone with their owner.

use crate::error::cannot;
use anyhow::{Context, anyhow};
use http::Request;
use std::{
    fmt::Display,
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, watch};

/// Time limit for a process to become ready: ten times the time that it takes on two busy cores.
const READY_WITHIN: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(100);
const TAIL_LINES: usize = 15;

/// Settings of all processes of a sandbox.
#[derive(Clone)]
pub(super) struct Launcher {
    /// The `fedgate` executable, whose hidden command `sandbox hold` keeps a process tied to its owner.
    pub(super) holder: PathBuf,
    /// Folder of the logs.
    pub(super) logs: PathBuf,
    /// File that every holder locks, see [`super::hold`].
    pub(super) lock: PathBuf,
}

/// A process to start.
pub(super) struct Spec {
    /// Name for people, e.g. `hub kube-apiserver`; its log is the same with `-` and `.log`.
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
}

impl Spec {
    pub(super) fn new(name: impl Into<String>, program: &Path, args: Vec<String>) -> Self {
        Self {
            name: name.into(),
            program: program.to_owned(),
            args,
        }
    }
}

/// A flag whose value is a path.
pub(super) fn flag(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// Flags whose values are the certificate and the key in a folder.
pub(super) fn pair_flags(certificate: &str, key: &str, folder: &Path) -> [String; 2] {
    [
        flag(certificate, &folder.join("tls.crt")),
        flag(key, &folder.join("tls.key")),
    ]
}

/// A process that runs, or ran. Dropping it ends it.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) log: PathBuf,
    /// Process id of the holder; the process itself is its child.
    pub(super) pid: u32,
    // The holder kills the process when this end of the pipe closes.
    pipe: Option<ChildStdin>,
    exited: watch::Receiver<Option<String>>,
}

impl Launcher {
    /// A stand-in: a hidden command of the sandbox's own executable.
    pub(super) fn own(&self, name: &str, args: Vec<String>) -> Spec {
        Spec::new(name, &self.holder, args)
    }

    /// Starts a process; its output is appended to its log.
    pub(super) fn start(&self, spec: &Spec) -> anyhow::Result<Process> {
        let log = self.logs.join(format!("{}.log", spec.name.replace(' ', "-")));
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(cannot("open", &log))?;
        let err = out.try_clone().with_context(cannot("open", &log))?;
        let mut child = Command::new(&self.holder)
            .args(["hold", "--lock"])
            .arg(&self.lock)
            .arg("--")
            .arg(&spec.program)
            .args(&spec.args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            // Ctrl-C at a terminal is for the owner alone, who ends its processes in order.
            .process_group(0)
            .spawn()
            .with_context(cannot("start", &self.holder))?;
        let (ended, exited) = watch::channel(None);
        let (pid, pipe) = (child.id(), child.stdin.take());
        // A thread, not a task: a sandbox may outlive the runtime that started it, as in a test binary.
        std::thread::spawn(move || {
            let how = child
                .wait()
                .map_or_else(|e| e.to_string(), |status| status.to_string());
            ended.send_replace(Some(how));
        });
        Ok(Process {
            name: spec.name.clone(),
            log,
            pid,
            pipe,
            exited,
        })
    }
}

impl Process {
    /// The exit status, once the process has ended.
    pub(super) fn ended(&self) -> Option<String> {
        self.exited.borrow().clone()
    }

    /// Ends it and waits until it is gone.
    pub(super) async fn stop(mut self) {
        drop(self.pipe.take());
        // An error means that the waiting thread is gone, which it is only after the process.
        let _ = self.exited.wait_for(Option::is_some).await;
    }

    /// Waits until it ends; answers how.
    pub(super) async fn wait(&self) -> String {
        let mut exited = self.exited.clone();
        match exited.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        }
    }

    /// Waits until `path` answers with success; an early end or two minutes without an answer is an error.
    pub(super) async fn ready(&self, client: &kube::Client, path: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        let answers = async {
            let mut last = "nothing asked yet".to_owned();
            while started.elapsed() < READY_WITHIN {
                match get(client, path).await {
                    Ok(()) => return Ok(()),
                    Err(reason) => last = reason,
                }
                tokio::time::sleep(POLL).await;
            }
            Err(last)
        };
        tokio::select! {
            answer = answers => answer.map_err(|last| self.failure(
                format!("is not ready after {} s: {path} answers: {last}", READY_WITHIN.as_secs()),
                "if the machine is busy, try again; otherwise read the whole log",
            )),
            how = self.wait() => Err(self.failure(
                format!("ended while starting ({how})"),
                "read the whole log; if a port is taken, try again",
            )),
        }
    }

    /// An error about this process with the end of its log.
    pub(super) fn failure(&self, what: impl Display, next: &str) -> anyhow::Error {
        failure(&self.name, what, &self.log, next)
    }
}

/// An error about a process with the end of its log.
pub(super) fn failure(process: &str, what: impl Display, log: &Path, next: &str) -> anyhow::Error {
    let (file, tail) = (log.display(), tail(log));
    anyhow!("{process} {what}\nlast lines of {file}:\n{tail}\nnext: {next}")
}

/// A process that can be stopped and started again.
pub(super) struct Service {
    spec: Spec,
    running: Mutex<Option<Process>>,
}

impl Service {
    /// Not started.
    pub(super) fn new(spec: Spec) -> Self {
        Self {
            spec,
            running: Mutex::default(),
        }
    }

    /// Starts it, unless it runs, and waits until `path` answers `client`.
    pub(super) async fn start(
        &self,
        launcher: &Launcher,
        client: &kube::Client,
        path: &str,
    ) -> anyhow::Result<()> {
        let mut running = self.running.lock().await;
        if running.as_ref().is_none_or(|process| process.ended().is_some()) {
            let process = launcher.start(&self.spec)?;
            process.ready(client, path).await?;
            *running = Some(process);
        }
        Ok(())
    }

    /// Ends it and waits until it is gone.
    pub(super) async fn stop(&self) {
        if let Some(process) = self.running.lock().await.take() {
            process.stop().await;
        }
    }

    /// Calls `visit` with the process, unless the service is stopped.
    pub(super) async fn visit(&self, visit: &mut impl FnMut(&Process)) {
        self.running.lock().await.iter().for_each(visit);
    }
}

/// Sends a GET request; the error is for people.
pub(super) async fn get(client: &kube::Client, path: &str) -> Result<(), String> {
    let request = Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
    match tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await {
        Ok(answer) => answer.map(|_| ()).map_err(|e| e.to_string()),
        Err(_) => Err("no answer in 5 s".to_owned()),
    }
}

/// The last lines of a log, or why they cannot be read.
pub(super) fn tail(log: &Path) -> String {
    let bytes = match std::fs::read(log) {
        Ok(bytes) => bytes,
        Err(error) => return format!("(unreadable: {error})"),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
