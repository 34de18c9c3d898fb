//! `fedgate-sandbox backends`: runs the stand-ins as a separate process.

use super::{
    decide::{network, quota},
    serve::{Backend, serve},
    store::Kind,
};
use crate::{SandboxError, child};
use clap::Args;
use std::path::PathBuf;
use tokio::task::JoinSet;

const NETWORK: Backend = Backend {
    kinds: network::KINDS,
    settings: Kind::ServingLocation,
    decide: network::decide,
};
const QUOTA: Backend = Backend {
    kinds: quota::KINDS,
    settings: Kind::Budgets,
    decide: quota::decide,
};

/// The API servers that the stand-ins for networking and quota work on.
#[derive(Debug, Clone, Args)]
pub struct BackendsArgs {
    /// A cell and a kubeconfig with all rights there; may be repeated.
    #[arg(long = "cell", value_name = "NAME=FILE", value_parser = child::named_file)]
    cells: Vec<(String, PathBuf)>,
    /// A project and a kubeconfig with all rights there; may be repeated.
    #[arg(long = "project", value_name = "NAME=FILE", value_parser = child::named_file)]
    projects: Vec<(String, PathBuf)>,
}

impl BackendsArgs {
    /// Runs until the process receives a shutdown signal.
    pub async fn run(self) -> Result<(), SandboxError> {
        child::begin_log();
        tracing::info!(
            cells = self.cells.len(),
            projects = self.projects.len(),
            "these are fedgate's STAND-INS for networking and quota, for the sandbox only"
        );
        let mut tasks = JoinSet::new();
        let cells = self.cells.into_iter().map(|plane| (plane, NETWORK));
        let projects = self.projects.into_iter().map(|plane| (plane, QUOTA));
        for ((name, file), backend) in cells.chain(projects) {
            tasks.spawn(serve(name, child::client(&file, None).await?, backend));
        }
        tokio::select! {
            () = child::shutdown_signal() => Ok(()),
            Some(Err(error)) = tasks.join_next() => Err(SandboxError::Options(format!(
                "a task of the stand-ins for networking and quota broke off: {error}"
            ))),
        }
    }
}
