//! A fleet on simulated planes, and the gateway of it as a process.

use super::{acts, planes::Planes, target};
use serde_json::json;
use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStdout, Command},
    time::{Instant, sleep},
};

/// The text of a message from a cell, which is no markup.
pub(crate) const MARKUP: &str = "<img src=x onerror=\"document.title='run'\">";
/// The token of a gateway that has one.
pub(crate) const TOKEN: &str = "0123456789abcdef-operators";

const PATIENCE: Duration = Duration::from_secs(120);

/// Planes with a running gateway.
pub(crate) struct Fleet {
    pub(crate) planes: Planes,
    gateway: Gateway,
    token: Option<PathBuf>,
}

/// A gateway at an address that is its own.
pub(crate) struct Gateway {
    address: SocketAddr,
    child: Option<Child>,
}

fn program() -> PathBuf {
    std::env::var_os("FEDGATE_BIN").map_or_else(|| target().join("debug/fedgate"), PathBuf::from)
}

impl Fleet {
    /// Projects without an object.
    pub(crate) async fn empty(name: &str, projects: usize) -> Self {
        let mut planes = Planes::up(target().join("console-planes").join(name))
            .await
            .unwrap();
        planes.grow(projects).unwrap();
        let mut fleet = Self {
            planes,
            gateway: Gateway::new(),
            token: None,
        };
        fleet.start().await;
        fleet
    }

    /// The same with a token.
    pub(crate) async fn with_token(name: &str) -> Self {
        let mut fleet = Self::empty(name, 1).await;
        let file = fleet.planes.process().join("token");
        std::fs::write(&file, TOKEN).unwrap();
        fleet.token = Some(file);
        fleet.stop().await;
        fleet.start().await;
        fleet
    }

    /// Projects with deployments and Instances; one deployment is not available and says so in [`MARKUP`].
    pub(crate) async fn full(name: &str) -> Self {
        let fleet = Self::empty(name, 3).await;
        let planes = &fleet.planes;
        planes.fill(0..3, 0..12).await.unwrap();
        planes.bind().unwrap();
        let instances = planes.write_back(2).unwrap();
        let projected = || planes.projections() >= instances;
        super::planes::until("every Instance is projected", projected)
            .await
            .unwrap();
        let copies = planes.hub.list(super::planes::DEPLOYMENTS);
        let copy = copies
            .iter()
            .find(|copy| acts::text(copy, "name") == "web-0")
            .unwrap();
        let mut report = super::objects::report(0);
        report["conditions"][0]["message"] = json!(MARKUP);
        report["conditions"][0]["reason"] = json!("ImageUnavailable");
        report["conditions"][0]["observedGeneration"] = json!(1);
        report["observedGeneration"] = json!(1);
        let namespace = acts::text(copy, "namespace");
        let status = json!({"status": report});
        planes
            .hub
            .merge_status(super::planes::DEPLOYMENTS, namespace, "web-0", status)
            .unwrap();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady",
            "lastTransitionTime": "2026-05-04T10:00:00Z"}]}});
        planes.hub.merge_status("clusters", "", "dfw-1", ready).unwrap();
        let told = || {
            let object =
                planes.projects[0].get(super::planes::DEPLOYMENTS, super::planes::NAMESPACE, "web-0");
            object.is_some_and(|object| object["status"].to_string().contains("onerror"))
        };
        super::planes::until("the project has the message", told)
            .await
            .unwrap();
        fleet
    }

    /// The console's address, without a view.
    pub(crate) fn url(&self) -> String {
        self.gateway.url()
    }

    /// Starts the gateway at its address, and waits until it is ready.
    pub(crate) async fn start(&mut self) {
        self.gateway.start(&self.planes, self.token.as_ref()).await;
    }

    /// Ends the gateway, as a kill does.
    pub(crate) async fn stop(&mut self) {
        self.gateway.stop().await;
    }

    /// One more gateway on the same planes.
    pub(crate) async fn replica(&self) -> Gateway {
        let mut gateway = Gateway::new();
        gateway.start(&self.planes, self.token.as_ref()).await;
        gateway
    }

    /// Runs `fedgate console` beside the gateway; the address that it prints.
    pub(crate) async fn console(&self) -> (Child, String) {
        let mut command = Command::new(program());
        command
            .args([
                "console",
                "--no-open",
                "--server",
                &format!("http://{}", self.gateway.address),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Some(token) = &self.token {
            command.arg("--token-file").arg(token);
        }
        let mut child = command.spawn().unwrap();
        let mut lines: Lines<BufReader<ChildStdout>> = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().unwrap();
        (child, url)
    }
}

impl Gateway {
    /// Not started. Its address is freed at once: what takes it before the gateway does fails the test.
    fn new() -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { address, child: None }
    }

    /// The console's address, without a view.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/console", self.address)
    }

    async fn start(&mut self, planes: &Planes, token: Option<&PathBuf>) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(planes.process().join("gateway.log"))
            .unwrap();
        let mut command = Command::new(program());
        command
            .arg("gateway")
            .arg("--hub-kubeconfig")
            .arg(planes.hub_kubeconfig())
            .args(["--project-mode", "directory", "--project-directory"])
            .arg(planes.directory())
            .args([
                "--log-format",
                "json",
                "--admin-address",
                &self.address.to_string(),
            ])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true);
        if let Some(token) = token {
            command.arg("--admin-token-file").arg(token);
        }
        self.child = Some(command.spawn().expect("the gateway: cargo build --bin fedgate"));
        let end = Instant::now() + PATIENCE;
        // A process that starts sends no event.
        while !self.is_ready().await {
            assert!(Instant::now() < end, "the gateway is not ready");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends the gateway.
    async fn stop(&mut self) {
        let mut gateway = self.child.take().unwrap();
        gateway.kill().await.unwrap();
    }

    async fn is_ready(&self) -> bool {
        let exchange = async {
            let mut stream = TcpStream::connect(self.address).await?;
            let request = format!(
                "GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.address
            );
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        exchange
            .await
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}
