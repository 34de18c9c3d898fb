//! The gateway as a separate process under its own certificate, with short times.

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
    sync::atomic::{AtomicU64, Ordering},
};
use tokio::{
    process::{Child, Command},
    sync::Mutex,
};

/// How long a city that was left stays in its namespace's city set.
pub(crate) const LINGER: u64 = 5;
/// How long an empty hub namespace outlives its project namespace.
pub(crate) const RETENTION: u64 = 8;
/// How long a city set's policy outlives its last namespace.
pub(crate) const UNUSED_SET: u64 = 12;
/// Pause between two sweeps where a test asks for them.
pub(crate) const SWEEP: u64 = 3;
/// Pause between two sweeps otherwise: longer than any test, so that nothing but an event can have done what is awaited.
pub(crate) const SELDOM: u64 = 3600;
/// How long a hub object must lack its origin before it is garbage.
pub(crate) const ORPHAN: u64 = 5;

/// Where a gateway finds the kubeconfigs of projects.
pub(crate) enum Projects {
    /// Files of this folder.
    Folder(PathBuf),
    /// Labelled Secrets of this namespace of the hub.
    Secrets(&'static str),
}

/// Where a gateway finds its planes.
pub(crate) struct Setup {
    /// Kubeconfig of the hub.
    pub(crate) hub: PathBuf,
    /// Where the projects' kubeconfigs are.
    pub(crate) projects: Projects,
    /// Folder of federated kinds beside the built-in ones.
    pub(crate) kinds: PathBuf,
    /// File to which the process writes.
    pub(crate) log: PathBuf,
    /// Further options of the gateway.
    pub(crate) further: Vec<&'static str>,
}

impl Projects {
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Folder(folder) => vec![
                "--project-mode=directory".into(),
                "--project-directory".into(),
                folder.into(),
            ],
            Self::Secrets(namespace) => vec![
                "--project-mode=secrets".into(),
                "--project-secrets-namespace".into(),
                (*namespace).into(),
            ],
        }
    }
}

/// One gateway process, which tests may stop and start again.
pub(crate) struct Gateway {
    setup: Setup,
    address: String,
    sweep: AtomicU64,
    child: Mutex<Option<Child>>,
}

/// A free port of the loopback interface, below those that the kernel gives to outgoing connections: one of these
/// could take the port while the gateway is down for a restart.
fn free_address() -> String {
    loop {
        let random = RandomState::new().hash_one(0);
        let address = format!("127.0.0.1:{}", 10_000 + random % 10_000);
        if std::net::TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// Process id of what the holder holds.
fn held(holder: &Child) -> Option<String> {
    let id = holder.id()?;
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}

/// Sends a signal to the gateway itself: its holder only waits for it.
async fn signal(name: &str, holder: &mut Child) {
    let gateway = loop {
        if holder.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        // The holder has only just begun.
        match held(holder) {
            Some(gateway) => break gateway,
            None => tokio::task::yield_now().await,
        }
    };
    let sent = Command::new("kill").args([name, &gateway]).status().await;
    assert!(
        sent.is_ok_and(|status| status.success()),
        "send {name} to the gateway"
    );
}

impl Gateway {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            setup,
            address: free_address(),
            sweep: AtomicU64::new(SELDOM),
            child: Mutex::new(None),
        }
    }

    fn command(&self) -> Command {
        let log = OpenOptions::new().create(true).append(true).open(&self.setup.log);
        let log = log.unwrap_or_else(|error| panic!("open {}: {error}", self.setup.log.display()));
        let again = log.try_clone().expect("a file handle can be cloned");
        let fedgate = env!("CARGO_BIN_EXE_fedgate");
        let mut command = Command::new(fedgate);
        // The holder ends the gateway when this process ends, however it ends.
        command
            .args(["sandbox", "hold", "--lock"])
            .arg(&self.setup.log)
            .args(["--", fedgate, "gateway"])
            .arg("--hub-kubeconfig")
            .arg(&self.setup.hub)
            .args(self.setup.projects.arguments())
            .arg("--interpreters")
            .arg(&self.setup.kinds)
            .args(["--admin-address", &self.address])
            .args(["--log-format", "json", "--log-level", "info,fedgate=debug"])
            .args(["--city-linger", &format!("{LINGER}s")])
            .args(["--hub-namespace-retention", &format!("{RETENTION}s")])
            .args(["--unused-city-set-after", &format!("{UNUSED_SET}s")])
            .args([
                "--sweep-interval",
                &format!("{}s", self.sweep.load(Ordering::Relaxed)),
            ])
            .args(["--orphan-after", &format!("{ORPHAN}s")])
            .args(&self.setup.further)
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(again)
            .kill_on_drop(true);
        command
    }

    /// Starts the process without waiting for anything.
    pub(crate) async fn spawn(&self) {
        assert!(!self.is_running().await, "the gateway runs already");
        assert!(
            http::get(&self.address, "/livez").await.is_none(),
            "nobody serves the gateway's address before it starts"
        );
        let mut child = self.child.lock().await;
        *child = Some(self.command().spawn().expect("start the gateway"));
    }

    /// Starts the process and waits until it says that it is ready.
    pub(crate) async fn start(&self) {
        self.spawn().await;
        self.ready().await;
    }

    /// Waits for `/readyz`; fails at once if the process ended.
    pub(crate) async fn ready(&self) {
        wait_for("the gateway is ready", seconds(90), || async {
            if let Some(Ok(Some(status))) = self.child.lock().await.as_mut().map(Child::try_wait) {
                panic!(
                    "the gateway ended with {status}; its log ends:\n{}",
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
        assert!(ended.is_ok(), "the gateway ended within 40 s of SIGTERM");
    }

    /// SIGKILL: what a crash looks like.
    pub(crate) async fn kill(&self) {
        let Some(mut child) = self.child.lock().await.take() else {
            return;
        };
        // Waiting closes the holder's pipe unless it is taken out, and a closed pipe means SIGKILL.
        let _pipe = child.stdin.take();
        signal("-KILL", &mut child).await;
        child.wait().await.expect("wait for the gateway's holder");
    }

    /// Process id, if the process is there.
    pub(crate) async fn pid(&self) -> Option<String> {
        held(self.child.lock().await.as_ref()?)
    }

    pub(crate) async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Sweeps with this pause from now on, for which a running process is started anew.
    pub(crate) async fn sweep_every(&self, pause: u64) {
        if self.sweep.swap(pause, Ordering::Relaxed) != pause && self.is_running().await {
            self.restart().await;
        }
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

    /// The document at `/debug/planes`, null if nobody answers.
    pub(crate) async fn planes(&self) -> Value {
        let answer = http::get(&self.address, "/debug/planes").await;
        answer
            .and_then(|(_, body)| serde_json::from_str(&body).ok())
            .unwrap_or_default()
    }

    /// What `/debug/planes` says of a project, if it is engaged.
    pub(crate) async fn project(&self, key: &str) -> Option<Value> {
        let (name, document) = (format!("project {key}"), self.planes().await);
        let planes = document["planes"].as_array()?;
        planes.iter().find(|plane| plane["plane"] == name).cloned()
    }

    /// Waits until the project is engaged and its first lists are complete.
    pub(crate) async fn engaged(&self, key: &str) {
        wait_for(&format!("project {key} is engaged"), seconds(60), || async {
            self.project(key).await.filter(|project| project["ready"] == true)
        })
        .await;
    }

    /// Waits until the project is left.
    pub(crate) async fn left(&self, key: &str) {
        wait_for(&format!("project {key} is left"), seconds(30), || async {
            let planes = self.planes().await["planes"].is_array();
            (planes && self.project(key).await.is_none()).then_some(())
        })
        .await;
    }

    /// Waits until the process may write and has read all of the hub.
    pub(crate) async fn leads(&self) {
        wait_for("the gateway leads", seconds(60), || async {
            let document = self.planes().await;
            let planes = document["planes"].as_array()?;
            let hub = planes.iter().find(|plane| plane["plane"] == "hub")?;
            (document["leading"] == true && hub["ready"] == true).then_some(())
        })
        .await;
    }

    /// Length of the log now, for [`Gateway::log_since`].
    pub(crate) fn log_mark(&self) -> usize {
        self.log().len()
    }

    /// The log lines written since the mark.
    pub(crate) fn log_since(&self, mark: usize) -> Vec<String> {
        let log = self.log();
        String::from_utf8_lossy(log.get(mark..).unwrap_or_default())
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn log(&self) -> Vec<u8> {
        std::fs::read(&self.setup.log).unwrap_or_default()
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        let log = self.log_since(0);
        log[log.len().saturating_sub(lines)..].join("\n")
    }

    /// The folder of the projects' kubeconfigs.
    pub(crate) fn projects(&self) -> &Path {
        match &self.setup.projects {
            Projects::Folder(folder) => folder,
            Projects::Secrets(_) => panic!("this gateway reads Secrets"),
        }
    }

    /// The kubeconfig of its hub.
    pub(crate) fn hub_kubeconfig(&self) -> &Path {
        &self.setup.hub
    }
}
