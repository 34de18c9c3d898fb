//! One etcd for all planes of a sandbox; each plane has a key prefix of its own.

use super::{
    SandboxError,
    process::{Launcher, Process, Spec},
};
use std::path::Path;

/// A running etcd.
pub(super) struct Etcd {
    pub(super) process: Process,
    /// Its client address.
    pub(super) url: String,
}

impl Etcd {
    /// Starts etcd with its data under `dir` and waits until it is healthy.
    ///
    /// `fsync: false` is right for tests and wrong for measurements: a write is then confirmed before it is on disk.
    pub(super) async fn start(
        launcher: &Launcher,
        program: &Path,
        dir: &Path,
        fsync: bool,
    ) -> Result<Self, SandboxError> {
        let url = format!("http://127.0.0.1:{}", super::ports::free_port()?);
        let peer = format!("http://127.0.0.1:{}", super::ports::free_port()?);
        let mut args = vec![
            "--name=sandbox".to_owned(),
            format!("--data-dir={}", dir.display()),
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
        let process = launcher.start(&Spec {
            name: "etcd".to_owned(),
            program: program.to_owned(),
            args,
        })?;
        let client = super::kubeconfig::plain_client("etcd", &url)?;
        process.ready(&client, "/health").await?;
        Ok(Self { process, url })
    }
}
