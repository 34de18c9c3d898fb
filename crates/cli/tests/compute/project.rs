//! A project's control plane, and runs of `kubectl-compute` beside it.

use crate::cells;
use fedgate_simulator::{Faults, Plane, Simulator, Verb};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, BufReader, Lines},
    net::TcpListener,
    process::{Child, ChildStderr, ChildStdout, Command},
    task::JoinHandle,
};

pub(crate) const NAMESPACE: &str = "default";

/// The control plane.
pub(crate) struct Project {
    pub(crate) plane: Plane,
    simulator: Simulator,
    pub(crate) faults: Faults,
    kubeconfig: PathBuf,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Project {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The end of a run.
pub(crate) struct Seen {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Seen {
    /// The run, which succeeded.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// The next line of its result.
    pub(crate) async fn line(&mut self) -> String {
        self.stdout.next_line().await.unwrap().unwrap()
    }

    /// The next line of its result, which is JSON.
    pub(crate) async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await).unwrap()
    }

    /// The next line for people.
    pub(crate) async fn remark(&mut self) -> String {
        self.stderr.next_line().await.unwrap().unwrap()
    }

    /// Interrupts it as Ctrl-C does.
    pub(crate) async fn interrupt(self) -> Seen {
        let id = self.child.id().unwrap().to_string();
        let end = Command::new("kill").args(["-INT", &id]).status().await.unwrap();
        assert!(end.success());
        self.end().await
    }

    /// Waits for its end; returns what was not read before.
    pub(crate) async fn end(mut self) -> Seen {
        let (stdout, stderr) = tokio::join!(rest(self.stdout), rest(self.stderr));
        Seen {
            code: self.child.wait().await.unwrap().code().unwrap(),
            stdout,
            stderr,
        }
    }
}

async fn rest(mut lines: Lines<impl AsyncBufRead + Unpin>) -> String {
    let mut text = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

impl Project {
    /// A project without objects.
    pub(crate) async fn start(name: &str) -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let simulator = Simulator::new(1);
        let plane = simulator.add(name);
        for definition in fedgate_api::crd::all().unwrap() {
            plane.define(&definition);
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let faults = simulator.faults();
        let planes = simulator.clone();
        let server = tokio::spawn(async move { planes.serve(listener, None).await.unwrap() });
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compute-{run}"));
        // An earlier run has left its files.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let kubeconfig = folder.join("config");
        let context =
            |cluster: &str| json!({"name": cluster, "context": {"cluster": cluster, "user": "ann"}});
        let cluster = |name: &str, server: String| json!({"name": name, "cluster": {"server": server}});
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "contexts": [context(name), context("elsewhere")],
            "clusters": [
                cluster(name, format!("http://{address}/planes/{name}")),
                // Nothing listens at this port.
                cluster("elsewhere", "http://127.0.0.1:9".to_owned()),
            ],
            "users": [{"name": "ann", "user": {"token": "ann"}}],
        });
        std::fs::write(&kubeconfig, document.to_string()).unwrap();
        Self {
            plane,
            simulator,
            faults,
            kubeconfig,
            tasks: vec![server],
        }
    }

    /// Runs a command.
    pub(crate) async fn run(&self, words: &[&str]) -> Seen {
        let end = self.command(words).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Seen {
            code: end.status.code().unwrap(),
            stdout: text(end.stdout),
            stderr: text(end.stderr),
        }
    }

    /// Adds a project that serves no kind of ours.
    pub(crate) fn bare(&self, name: &str) {
        self.simulator.add(name);
    }

    /// Names of the planes that were asked for something.
    pub(crate) fn planes(&self) -> BTreeSet<String> {
        let entries = self.simulator.log().entries();
        entries.iter().map(|entry| entry.plane.to_string()).collect()
    }

    /// Number of requests of this kind.
    pub(crate) fn requests(&self, verb: Verb, resource: &str) -> usize {
        let entries = self.simulator.log().entries();
        let fits = entries
            .iter()
            .filter(|entry| entry.verb == verb && &*entry.resource == resource);
        fits.count()
    }

    /// Waits until a request of this kind has come.
    pub(crate) async fn until_requested(&self, verb: Verb, resource: &str) {
        let log = self.simulator.log();
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        while !log
            .entries()
            .iter()
            .any(|e| e.verb == verb && &*e.resource == resource)
        {
            tick.tick().await;
        }
    }

    /// Path of the kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder of its own.
    pub(crate) fn folder(&self) -> &Path {
        self.kubeconfig.parent().unwrap()
    }

    /// Starts a command that goes on.
    pub(crate) fn start_run(&self, words: &[&str]) -> Running {
        let mut command = self.command(words);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Running {
            child,
            stdout,
            stderr,
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-compute"));
        command
            .args(words)
            .env("KUBECONFIG", &self.kubeconfig)
            .env_remove("NO_COLOR");
        command
    }

    /// Runs a command in the context of a plane that does not exist.
    pub(crate) async fn elsewhere(&self, words: &[&str]) -> Seen {
        self.run(&[words, &["--context", "elsewhere"]].concat()).await
    }

    /// Plays the gateway and the cells from now on: each city of a Workload gets a deployment whose Instances are ready.
    pub(crate) fn cells(&mut self) {
        let plane = self.plane.clone();
        self.tasks.push(tokio::spawn(async move {
            let mut changed = plane.changed();
            loop {
                changed.borrow_and_update();
                cells::pass(&plane);
                changed.changed().await.unwrap();
            }
        }));
    }

    /// Waits until an object has a state.
    pub(crate) async fn until(&self, kind: &str, name: &str, is: impl Fn(Option<&Value>) -> bool) {
        let mut changed = self.plane.changed();
        loop {
            changed.borrow_and_update();
            if is(self
                .plane
                .get(kind, NAMESPACE, name)
                .or_else(|| self.plane.get(kind, "", name))
                .as_deref())
            {
                return;
            }
            changed.changed().await.unwrap();
        }
    }

    /// Creates an object.
    pub(crate) fn create(&self, object: Value) -> Value {
        self.plane.create(object).unwrap()
    }

    /// Creates a Workload with one placement.
    pub(crate) fn workload(&self, name: &str, image: &str, cities: &[&str]) -> Value {
        self.create(json!({
            "apiVersion": fedgate_api::API_VERSION, "kind": "Workload",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"template": template(image), "placements": [
                {"name": "us", "cityCodes": cities, "scaleSettings": {"minReplicas": 2}}]},
        }))
    }

    /// Creates a deployment of a Workload.
    pub(crate) fn deployment(&self, workload: &Value, name: &str, city: &str) {
        self.create(json!({
            "apiVersion": fedgate_api::API_VERSION, "kind": "WorkloadDeployment",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "workloadRef": {"name": workload["metadata"]["name"], "uid": workload["metadata"]["uid"]},
                "placementName": "us", "cityCode": city, "scaleSettings": {"minReplicas": 2},
                "template": workload["spec"]["template"],
            },
        }));
    }

    /// Writes the status of an object.
    pub(crate) fn status(&self, kind: &str, name: &str, status: &Value) {
        let patch = json!({"status": status});
        self.plane.merge_status(kind, NAMESPACE, name, patch).unwrap();
    }

    /// Writes a file beside the kubeconfig; returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.kubeconfig.with_file_name(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Number of writes so far.
    pub(crate) fn writes(&self) -> u64 {
        self.plane.writes()
    }

    /// Number of lists so far.
    pub(crate) fn lists(&self) -> u64 {
        self.plane.requests(Verb::List)
    }
}

fn template(image: &str) -> Value {
    json!({"spec": {
        "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "app", "image": image}]}},
        "networkInterfaces": [{"network": {"name": "default"}}],
    }})
}

/// An Instance with these labels.
pub(crate) fn instance(name: &str, labels: &Value) -> Value {
    let mut spec = template("nginx")["spec"].take();
    spec["controller"] = json!({"templateHash": "x"});
    json!({"apiVersion": fedgate_api::API_VERSION, "kind": "Instance",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec})
}
