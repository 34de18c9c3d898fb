//! One etcd for all planes of a sandbox, each with a key prefix of its own; and one more for each plane that is to be put
//! back to an older state by itself.

use super::process::{Launcher, Service, Spec, flag};
use crate::error::cannot;
use anyhow::{Context, ensure};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// An etcd.
pub(super) struct Etcd {
    /// Runs but for the moment in which its data is copied.
    pub(super) process: Service,
    /// Its client address.
    pub(super) url: String,
    dir: PathBuf,
}

impl Etcd {
    /// Starts an etcd of this name with its data under `dir` and waits until it is healthy.
    ///
    /// `fsync: false` is right for tests and wrong for measurements: a write is then confirmed before it is on disk.
    pub(super) async fn start(
        launcher: &Launcher,
        program: &Path,
        name: &str,
        dir: PathBuf,
        fsync: bool,
    ) -> anyhow::Result<Self> {
        let url = format!("http://127.0.0.1:{}", super::ports::free_port()?);
        let peer = format!("http://127.0.0.1:{}", super::ports::free_port()?);
        let mut args = vec![
            "--name=sandbox".to_owned(),
            flag("--data-dir", &dir),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=sandbox={peer}"),
            "--quota-backend-bytes=8589934592".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        if !fsync {
            args.push("--unsafe-no-fsync".to_owned());
        }
        let etcd = Self {
            process: Service::new(Spec::new(name, program, args)),
            url,
            dir,
        };
        etcd.run(launcher).await?;
        Ok(etcd)
    }

    async fn run(&self, launcher: &Launcher) -> anyhow::Result<()> {
        let client = super::kubeconfig::client("etcd", &self.url, None, None)?;
        self.process.start(launcher, &client, "/health").await
    }

    fn copy(&self, name: &str) -> PathBuf {
        self.dir.with_extension(name)
    }

    /// Keeps a copy of what it holds, under a name; it stops meanwhile.
    pub(super) async fn save(&self, launcher: &Launcher, name: &str) -> anyhow::Result<()> {
        self.process.stop().await;
        replace(&self.copy(name), &self.dir)?;
        self.run(launcher).await
    }

    /// Puts back what was kept last under this name: its revision goes back with it.
    pub(super) async fn put_back(&self, launcher: &Launcher, name: &str) -> anyhow::Result<()> {
        self.process.stop().await;
        replace(&self.dir, &self.copy(name))?;
        self.run(launcher).await
    }
}

/// Replaces a folder by a copy of another.
fn replace(copy: &Path, of: &Path) -> anyhow::Result<()> {
    super::layout::remove(copy, std::fs::remove_dir_all(copy))?;
    let copied = Command::new("cp").arg("-r").args([of, copy]).status();
    let copied = copied.with_context(cannot("copy", of))?;
    ensure!(copied.success(), "cannot copy {}: cp: {copied}", of.display());
    Ok(())
}
