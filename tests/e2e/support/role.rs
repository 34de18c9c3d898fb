//! A role of fedgate as a separate process, which tests may stop, kill and start again.

use super::{
    http,
    plane::{seconds, wait_for},
};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs::OpenOptions,
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    process::{Child, Command},
    sync::Mutex,
};

/// One process, running or not.
pub(crate) struct Role {
    /// What failures call it.
    name: String,
    /// File to which it writes.
    log: PathBuf,
    /// Of its admin server.
    address: String,
    /// The file that is its `/etc/hosts`.
    hosts: Option<PathBuf>,
    child: Mutex<Option<Child>>,
}

/// A free port of the loopback interface, below those that the kernel gives to outgoing connections: one of these
/// could take the port while the process is down for a restart.
fn free_address() -> String {
    loop {
        let random = RandomState::new().hash_one(0);
        let address = format!("127.0.0.1:{}", 10_000 + random % 10_000);
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// The command that runs another one, the rest of its arguments, with this file as `/etc/hosts`. It does so as the same
/// process, in mounts of its own.
fn own_hosts(file: &Path) -> [OsString; 6] {
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let start = ["unshare", "--mount", "sh", "-c", script].map(OsString::from);
    let [unshare, mount, sh, command, script] = start;
    [unshare, mount, sh, command, script, file.into()]
}

/// Process id of what the holder holds.
fn held(holder: &Child) -> Option<String> {
    let id = holder.id()?;
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

/// Sends a signal to the process itself: its holder only waits for it.
async fn signal(name: &str, holder: &mut Child) {
    let process = loop {
        if holder.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // The holder has only just begun.
        match held(holder) {
            Some(process) => break process,
            None => tokio::task::yield_now().await,
        }
    };
    let sent = Command::new("kill").args([name, &process]).status().await;
    assert!(
        sent.is_ok_and(|status| status.success()),
        "send {name} to process {process}"
    );
}

impl Role {
    pub(crate) fn new(name: &str, log: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            log,
            address: free_address(),
            hosts: None,
            child: Mutex::new(None),
        }
    }

    /// Gives it this file with the addresses of hosts. It needs the right to mount.
    pub(crate) fn resolving(self, hosts: PathBuf) -> Self {
        Self {
            hosts: Some(hosts),
            ..self
        }
    }

    fn command(&self, arguments: &[OsString]) -> Command {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.unwrap_or_else(|error| panic!("open {}: {error}", self.log.display()));
        let again = log.try_clone().expect("a file handle can be cloned");
        let fedgate = env!("CARGO_BIN_EXE_fedgate");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fedgate-sandbox"));
        // The holder ends the process when its pipe is closed: when this process ends, however it ends, and when a test
        // that fails drops the role. A holder that were killed then would leave the process behind.
        command
            .args(["hold", "--lock"])
            .arg(&self.log)
            .arg("--")
            .args(self.hosts.iter().flat_map(|hosts| own_hosts(hosts)))
            .arg(fedgate)
            .args(arguments)
            .args(["--admin-address", &self.address])
            .args(["--log-format", "json", "--log-level", "info,fedgate=debug"])
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(again);
        command
    }

    /// Starts `fedgate` with these arguments without waiting for anything.
    pub(crate) async fn spawn(&self, arguments: &[OsString]) {
        let name = &self.name;
        assert!(!self.is_running().await, "the {name} runs already");
        assert!(
            http::get(&self.address, "/livez").await.is_none(),
            "nobody serves the address of the {name} before it starts"
        );
        let mut child = self.child.lock().await;
        let started = self.command(arguments).spawn();
        *child = Some(started.unwrap_or_else(|error| panic!("start the {name}: {error}")));
    }

    /// Where its admin server listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for `/readyz`; fails at once if the process ended.
    pub(crate) async fn ready(&self) {
        let name = &self.name;
        wait_for(&format!("the {name} is ready"), seconds(90), || async {
            if let Some(Ok(Some(status))) = self.child.lock().await.as_mut().map(Child::try_wait) {
                panic!(
                    "the {name} ended with {status}; its log ends:\n{}",
                    self.log_tail(40)
                );
            }
            http::get(&self.address, "/readyz")
                .await
                .filter(|(code, _)| *code == 200)
        })
        .await;
    }

    /// SIGTERM, and the wait for the end.
    pub(crate) async fn stop(&self) {
        let Some(mut child) = self.child.lock().await.take() else {
            return;
        };
        // Waiting closes the holder's pipe unless it is taken out, and a closed pipe means SIGKILL.
        let _pipe = child.stdin.take();
        signal("-TERM", &mut child).await;
        let ended = tokio::time::timeout(seconds(40), child.wait()).await;
        assert!(
            ended.is_ok(),
            "the {} did not end within 40 s of SIGTERM",
            self.name
        );
    }

    /// SIGKILL: what a crash looks like.
    pub(crate) async fn kill(&self) {
        let Some(mut child) = self.child.lock().await.take() else {
            return;
        };
        // Waiting closes the holder's pipe unless it is taken out, and a closed pipe means SIGKILL.
        let _pipe = child.stdin.take();
        signal("-KILL", &mut child).await;
        child.wait().await.expect("wait for the process's holder");
    }

    /// Process id, if the process is there.
    pub(crate) async fn pid(&self) -> Option<String> {
        held(self.child.lock().await.as_ref()?)
    }

    /// Whether the process is there.
    pub(crate) async fn is_running(&self) -> bool {
        matches!(
            self.child.lock().await.as_mut().map(Child::try_wait),
            Some(Ok(None))
        )
    }

    /// The text of `/metrics`, empty if nobody answers.
    pub(crate) async fn metrics(&self) -> String {
        http::get(&self.address, "/metrics")
            .await
            .map_or_else(String::new, |(_, body)| body)
    }

    /// Sum of a metric's samples whose labels contain all of `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        http::metric(&self.metrics().await, name, labels)
    }

    /// The answer of the operations API below `/api/v1/`: its code and its document; `None` if nobody answers.
    pub(crate) async fn operations(&self, path: &str) -> Option<(u16, Value)> {
        let (code, text) = http::get(&self.address, &format!("/api/v1/{path}")).await?;
        let document = serde_json::from_str(&text);
        Some((
            code,
            document.unwrap_or_else(|error| panic!("{path} answers {error}: {text}")),
        ))
    }

    /// The answer at a path of the admin address for whoever shows this bearer token: its code and its text.
    pub(crate) async fn answer_to(&self, token: &str, path: &str) -> Option<(u16, String)> {
        http::get_as(&self.address, path, token).await
    }

    /// Whether the process answers `/livez` with 200.
    pub(crate) async fn lives(&self) -> bool {
        let answer = http::get(self.address(), "/livez").await;
        answer.is_some_and(|(code, _)| code == 200)
    }

    /// The document at `/debug/planes`, null if nobody answers.
    pub(crate) async fn planes(&self) -> Value {
        let answer = http::get(&self.address, "/debug/planes").await;
        answer
            .and_then(|(_, body)| serde_json::from_str(&body).ok())
            .unwrap_or_default()
    }

    /// Length of the log now, for [`Role::log_since`].
    pub(crate) fn log_mark(&self) -> usize {
        self.log_text().len()
    }

    /// The log lines written since the mark.
    pub(crate) fn log_since(&self, mark: usize) -> Vec<String> {
        let log = self.log_text();
        String::from_utf8_lossy(log.get(mark..).unwrap_or_default())
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn log_text(&self) -> Vec<u8> {
        std::fs::read(&self.log).unwrap_or_default()
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        let log = self.log_since(0);
        log[log.len().saturating_sub(lines)..].join("\n")
    }
}
