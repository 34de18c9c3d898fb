//! The executables of a plane: taken from `KUBEBUILDER_ASSETS`, or built once from pinned Go modules and kept, by
//! `modules/build.sh`.

use super::{Progress, SandboxError};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

/// The Go modules of the sandbox. Their sources must be where this executable was built.
const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/modules");
/// The end of a failed build's output that goes into the error.
const KEPT_LINES: usize = 14;

/// Helm, which judges the chart and installs it; built once. No plane needs it.
pub async fn helm(progress: &Progress) -> Result<PathBuf, SandboxError> {
    get("helm", progress).await
}

/// kubectl of the planes' version; built once. No plane needs it.
pub async fn kubectl(progress: &Progress) -> Result<PathBuf, SandboxError> {
    get("kubectl", progress).await
}

/// Prometheus's promtool, which judges alerts and metrics; built once. No plane needs it.
pub async fn promtool(progress: &Progress) -> Result<PathBuf, SandboxError> {
    get("promtool", progress).await
}

/// Judges files of `CustomResourceDefinition`s by the validation of the oldest Kubernetes that they are for; built once.
pub async fn definitions_check(progress: &Progress) -> Result<PathBuf, SandboxError> {
    get("definitions-check", progress).await
}

/// The folder with the definitions of prometheus-operator, one a file; downloaded once into Go's module cache.
pub async fn prometheus_operator_definitions() -> Result<PathBuf, SandboxError> {
    let failed = |reason: String| SandboxError::Binary {
        program: "prometheus-operator's definitions".to_owned(),
        reason,
        next: "install Go so that `go` is on PATH, and check the network and GOPROXY".to_owned(),
    };
    let source = Path::new(MODULES).join("prometheus-operator");
    let output = Command::new("go")
        .args([
            "mod",
            "download",
            "-json",
            "github.com/prometheus-operator/prometheus-operator",
        ])
        .current_dir(&source)
        .env("GOWORK", "off")
        .env("GOFLAGS", "-mod=readonly")
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(SandboxError::io("start go in", &source))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let downloaded: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
    match downloaded["Dir"].as_str().filter(|_| output.status.success()) {
        Some(dir) => Ok(Path::new(dir).join("example/prometheus-operator-crd")),
        None => Err(failed(format!(
            "go mod download failed ({}): {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// Where the executables of a plane are.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    /// The controllers of kube-controller-manager that a plane needs.
    pub(super) controllers: PathBuf,
    /// If cells run Pods.
    pub(super) pods: Option<PodBinaries>,
}

/// Where the executables are that a cell needs to run Pods.
#[derive(Debug, Clone)]
pub(super) struct PodBinaries {
    pub(super) binder: PathBuf,
    pub(super) kwok: PathBuf,
}

impl Binaries {
    /// Finds each executable, or builds it: minutes the first time, nothing later. `pods` says whether cells run Pods.
    pub(super) async fn get(pods: bool, progress: &Progress) -> Result<Self, SandboxError> {
        Ok(Self {
            etcd: get("etcd", progress).await?,
            kube_apiserver: get("kube-apiserver", progress).await?,
            controllers: get("plane-controllers", progress).await?,
            pods: if pods {
                Some(PodBinaries {
                    binder: get("pod-binder", progress).await?,
                    kwok: get("kwok", progress).await?,
                })
            } else {
                None
            },
        })
    }
}

async fn get(program: &str, progress: &Progress) -> Result<PathBuf, SandboxError> {
    let script = Path::new(MODULES).join("build.sh");
    let mut build = Command::new(&script)
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(SandboxError::io("start", &script))?;
    let mut kept: Vec<String> = Vec::new();
    if let Some(stderr) = build.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            progress.say(&line);
            if kept.len() == KEPT_LINES {
                kept.remove(0);
            }
            kept.push(line);
        }
    }
    let output = build
        .wait_with_output()
        .await
        .map_err(SandboxError::io("wait for", &script))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !path.is_empty() {
        return Ok(path.into());
    }
    let next = kept.pop_if(|line| line.starts_with("next: "));
    Err(SandboxError::Binary {
        program: program.to_owned(),
        reason: kept.join("\n"),
        next: next.map_or_else(
            || format!("run {} {program}", script.display()),
            |line| line.trim_start_matches("next: ").to_owned(),
        ),
    })
}
