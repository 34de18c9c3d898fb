//! What is done to the planes while the load runs.

use crate::{
    process::signal,
    rng::Rng,
    support::{http, process::pid, seconds, suite::Suite},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// How long a process stands still.
const FREEZE: Duration = seconds(5);

/// One disturbance.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// SIGSTOP of etcd, SIGCONT 5 s later.
    FreezeEtcd,
    /// etcd forgets all revisions but the last.
    Compact,
    /// SIGSTOP of a plane's API server, SIGCONT 5 s later.
    FreezeServer(&'static str),
    /// SIGKILL of a plane's API server, which is started again at once.
    KillServer(&'static str),
    /// The same after a compaction: nobody can go on from where he was, and watches end with 410.
    CompactAndKillServer(&'static str),
}

impl Fault {
    fn name(self) -> String {
        match self {
            Self::FreezeEtcd => "SIGSTOP of etcd for 5 s".to_owned(),
            Self::Compact => "compaction of etcd".to_owned(),
            Self::FreezeServer(plane) => format!("SIGSTOP of {plane}'s API server for 5 s"),
            Self::KillServer(plane) => format!("kill -9 of {plane}'s API server"),
            Self::CompactAndKillServer(plane) => {
                format!("compaction, then kill -9 of {plane}'s API server")
            }
        }
    }
}

/// Carries faults out and counts them.
pub(crate) struct Faults {
    suite: Arc<Suite>,
    rng: Rng,
    pub(crate) counts: BTreeMap<String, u64>,
}

impl Faults {
    pub(crate) fn new(suite: &Arc<Suite>, rng: Rng) -> Self {
        Self {
            suite: Arc::clone(suite),
            rng,
            counts: BTreeMap::new(),
        }
    }

    /// All of `faults` in some order, again and again until told to stop, with pauses of so many seconds.
    pub(crate) async fn run(
        mut self,
        faults: &[Fault],
        pause: (u64, u64),
        mut stop: watch::Receiver<bool>,
    ) -> Self {
        loop {
            for fault in self.rng.shuffled(faults) {
                let pause = Duration::from_millis(self.rng.between(pause.0 * 1000, pause.1 * 1000));
                tokio::select! {
                    () = sleep(pause) => {}
                    _ = stop.wait_for(|stop| *stop) => return self,
                }
                let began = Instant::now();
                self.inflict(fault).await;
                eprintln!("    {}: {:.1} s", fault.name(), began.elapsed().as_secs_f64());
                *self.counts.entry(fault.name()).or_default() += 1;
            }
        }
    }

    async fn inflict(&self, fault: Fault) {
        match fault {
            Fault::FreezeEtcd => self.freeze("etcd").await,
            Fault::FreezeServer(plane) => self.freeze(&format!("{plane} kube-apiserver")).await,
            Fault::Compact => self.compact().await,
            Fault::KillServer(plane) => self.kill(plane).await,
            Fault::CompactAndKillServer(plane) => {
                self.compact().await;
                self.kill(plane).await;
            }
        }
    }

    async fn kill(&self, plane: &str) {
        self.suite.stop_plane(plane).await;
        self.suite.start_plane(plane).await;
    }

    async fn freeze(&self, process: &str) {
        let pid = self.process(process);
        signal("-STOP", &pid).await;
        sleep(FREEZE).await;
        signal("-CONT", &pid).await;
    }

    fn process(&self, name: &str) -> String {
        pid(&self.suite.dir, name).unwrap_or_else(|| panic!("the sandbox has a process {name:?}"))
    }

    /// Compacts at the present revision, through etcd's JSON interface.
    async fn compact(&self) {
        let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", self.process("etcd")));
        let arguments = arguments.expect("read etcd's command line");
        let address = arguments
            .split('\0')
            .find_map(|argument| argument.strip_prefix("--advertise-client-urls=http://"))
            .expect("etcd says where it listens");
        // Any key will do: the answer's header has the revision.
        let (code, answer) = post(address, "/v3/kv/range", r#"{"key":"AA=="}"#).await;
        assert_eq!(code, 200, "etcd: {answer}");
        let revision = answer
            .split_once("\"revision\":\"")
            .and_then(|(_, rest)| rest.split_once('"'));
        let Some((revision, _)) = revision else {
            panic!("etcd's answer has a revision: {answer}");
        };
        let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        let (code, answer) = post(address, "/v3/kv/compaction", &body).await;
        // Nothing was written since the one before.
        let done = answer.contains("required revision has been compacted");
        assert!(code == 200 || done, "etcd, {body}: {code} {answer}");
    }
}

/// A POST of JSON; the answer's code and body.
async fn post(address: &str, path: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    http::exchange(address, &request).await.expect("etcd answers")
}
