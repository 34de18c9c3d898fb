//! Functions that all stand-in processes use.

use super::SandboxError;
use kube::Client;
use kube_runtime::utils::Backoff;
use std::{fmt::Display, path::Path, time::Duration};

/// Logs to standard error, which is the process's log file. A process that has set up its log keeps it.
pub(super) fn begin_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("fedgate=info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}

/// A client for a context of a file, or for its current one. Calls are not retried by the client itself.
pub(super) async fn client(file: &Path, context: Option<&str>) -> Result<Client, SandboxError> {
    let loaded = fedgate_kubeconfig::load(Some(file), context, false).await;
    let config = loaded.map_err(|error| refuse(file, error))?.config;
    let client = fedgate_kubeconfig::client(&config).map_err(|error| refuse(file, error))?;
    Ok(client.build())
}

/// An error about a kubeconfig or a certificate.
pub(super) fn refuse(file: &Path, error: impl Display) -> SandboxError {
    SandboxError::Options(format!("cannot use {}: {error}", file.display()))
}

/// Waits for an interrupt.
pub(super) async fn shutdown_signal() {
    // Without a signal handler the process ends by its parent's hand.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Reads `NAME=FILE`.
pub(super) fn named_file(text: &str) -> Result<(String, std::path::PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("expected NAME=FILE, e.g. dfw-1=/tmp/dfw-1.yaml".to_owned()),
    }
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
