//! `fedgate-sandbox standin`: runs the stand-in as a separate process.

use super::{Member, StandinError, StandinOptions, run};
use crate::child;
use clap::Args;
use kube::Client;
use std::path::{Path, PathBuf};

/// The API servers that the stand-in works on.
#[derive(Debug, Clone, Args)]
pub struct StandinArgs {
    /// Kubeconfig of the hub, with all rights there.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: PathBuf,
    /// A member: name of its Cluster object and kubeconfig with all rights there; may be repeated.
    #[arg(long = "member", value_name = "NAME=FILE", value_parser = child::named_file)]
    members: Vec<(String, PathBuf)>,
}

impl StandinArgs {
    /// Runs until the process receives a shutdown signal.
    pub async fn run(self) -> Result<(), StandinError> {
        child::begin_log();
        let hub = client(&self.hub_kubeconfig).await?;
        let mut members = Vec::new();
        for (name, file) in &self.members {
            members.push(Member {
                name: name.clone(),
                client: client(file).await?,
            });
        }
        run(StandinOptions { hub, members }, child::shutdown_signal()).await
    }
}

async fn client(file: &Path) -> Result<Client, StandinError> {
    child::client(file)
        .await
        .map_err(|source| StandinError::Kubeconfig {
            file: file.to_owned(),
            source,
        })
}
