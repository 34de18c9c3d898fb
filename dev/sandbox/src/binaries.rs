//! The executables of a plane: taken from `KUBEBUILDER_ASSETS`, or built once from pinned Go modules and kept, by
//! `modules/build.sh`.

use super::Progress;
use crate::error::cannot;
use anyhow::{Context, bail};
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

/// Paths of a plane's executables.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    /// The controllers of kube-controller-manager that a plane needs.
    pub(super) controllers: PathBuf,
    /// Binds Pods to the nodes of a cell, on which KWOK runs them.
    pub(super) binder: PathBuf,
    pub(super) kwok: PathBuf,
}

impl Binaries {
    /// Finds each executable, or builds it: minutes the first time, nothing later.
    pub(super) async fn get(progress: &Progress) -> anyhow::Result<Self> {
        Ok(Self {
            etcd: program("etcd", progress).await?,
            kube_apiserver: program("kube-apiserver", progress).await?,
            controllers: program("plane-controllers", progress).await?,
            binder: program("pod-binder", progress).await?,
            kwok: program("kwok", progress).await?,
        })
    }
}

/// A program that `modules/build.sh` builds once: one of a plane, `kubectl` of the planes' version, `helm`, Prometheus's `promtool`,
/// or `definitions-check`, which judges files of `CustomResourceDefinition`s by the validation of the oldest Kubernetes that they
/// are for. `prometheus-operator-definitions` is a folder with a definition in each file.
pub async fn program(program: &str, progress: &Progress) -> anyhow::Result<PathBuf> {
    let script = Path::new(MODULES).join("build.sh");
    let mut build = Command::new(&script)
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(cannot("start", &script))?;
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
        .with_context(cannot("wait for", &script))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !path.is_empty() {
        return Ok(path.into());
    }
    let next = kept.pop_if(|line| line.starts_with("next: "));
    let next = next.unwrap_or_else(|| format!("next: run {} {program}", script.display()));
    bail!("cannot get {program}: {}; {next}", kept.join("\n"))
}
