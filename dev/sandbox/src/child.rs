//! Functions that all stand-in processes use.

use super::{
    Options,
    layout::Layout,
    process::flag,
    users::{Own, own_path},
};
use anyhow::anyhow;
use clap::Args;
use kube::Client;
use kube_runtime::utils::Backoff;
use std::{
    fmt::Display,
    path::{Path, PathBuf},
    time::Duration,
};

/// The planes that a stand-in works on.
#[derive(Debug, Clone, Args)]
pub struct StandInArgs {
    /// Folder of the sandbox.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Port of 127.0.0.1 to serve.
    #[arg(long)]
    pub(super) port: u16,
    /// A project; may be repeated.
    #[arg(long = "project", value_name = "NAME")]
    pub(super) projects: Vec<String>,
    /// A cell; may be repeated.
    #[arg(long = "cell", value_name = "NAME")]
    pub(super) cells: Vec<String>,
    /// Milo's own API server has the projects.
    #[arg(long)]
    pub(super) milo: bool,
}

impl StandInArgs {
    /// The command line of a stand-in; `port` is 0 if it serves nothing.
    pub(super) fn line(command: &str, layout: &Layout, options: &Options, port: u16) -> Vec<String> {
        let mut line = vec![
            command.to_owned(),
            flag("--dir", &layout.dir),
            format!("--port={port}"),
        ];
        line.extend(options.projects.iter().map(|name| format!("--project={name}")));
        line.extend(options.cells.iter().map(|cell| format!("--cell={}", cell.name)));
        line.extend(options.milo().map(|_| "--milo".to_owned()));
        line
    }

    /// Logs to standard error, which is the process's log file, and says what the process plays.
    pub(super) fn begin(&self, played: &str) {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("fedgate=info"));
        let log = tracing_subscriber::fmt().with_env_filter(filter);
        // A process that has set up its log keeps it.
        let _ = log.with_writer(std::io::stderr).try_init();
        tracing::info!(projects = ?self.projects, cells = ?self.cells, "{played}, for the sandbox only");
    }

    pub(super) fn layout(&self) -> Layout {
        let dir = self.dir.clone();
        Layout { dir }
    }

    /// The kubeconfig of a plane for one of the sandbox's own users, with all rights there.
    pub(super) fn kubeconfig(&self, own: Own, plane: &str) -> PathBuf {
        own_path(&self.layout(), own, plane)
    }
}

/// A client for a context of a file, or for its current one. Calls are not retried by the client itself.
pub(super) async fn client(file: &Path, context: Option<&str>) -> anyhow::Result<Client> {
    let loaded = fedgate_kubeconfig::load(Some(file), context, false).await;
    let config = loaded.map_err(|error| refuse(file, error))?.config;
    let client = fedgate_kubeconfig::client(&config).map_err(|error| refuse(file, error))?;
    Ok(client.build())
}

/// An error about a kubeconfig or a certificate.
pub(super) fn refuse(file: &Path, error: impl Display) -> anyhow::Error {
    anyhow!("cannot use {}: {error}", file.display())
}

/// Waits for a broken watch: short and always the same, because planes come and go in tests.
#[derive(Debug)]
pub(super) struct FixedBackoff;

impl Iterator for FixedBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(300))
    }
}

impl Backoff for FixedBackoff {
    fn reset(&mut self) {}
}
