//! `fedgate sandbox standin`: the stand-in as a process of its own.

use super::{Member, StandinError, StandinOptions, run};
use clap::Args;
use kube::{
    Client,
    config::{Config, KubeConfigOptions, Kubeconfig},
};
use std::path::{Path, PathBuf};

/// Which API servers the stand-in works on.
#[derive(Debug, Clone, Args)]
pub struct StandinArgs {
    /// Kubeconfig of the hub, with all rights there.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: PathBuf,
    /// A member: name of its Cluster object and kubeconfig with all rights there; may be repeated.
    #[arg(long = "member", value_name = "NAME=FILE", value_parser = member)]
    members: Vec<(String, PathBuf)>,
}

fn member(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("expected NAME=FILE, e.g. dfw-1=/tmp/dfw-1.yaml".to_owned()),
    }
}

impl StandinArgs {
    /// Runs until the process is told to end.
    pub async fn run(self) -> Result<(), StandinError> {
        let filter = tracing_subscriber::EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("fedgate=info"));
        // A process that has set up its log keeps it.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .try_init();
        let hub = client(&self.hub_kubeconfig).await?;
        let mut members = Vec::new();
        for (name, file) in &self.members {
            members.push(Member {
                name: name.clone(),
                client: client(file).await?,
            });
        }
        let told_to_end = async {
            // Without a signal handler the process ends by its parent's hand.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        run(StandinOptions { hub, members }, told_to_end).await
    }
}

async fn client(file: &Path) -> Result<Client, StandinError> {
    let unusable = |source: Box<dyn std::error::Error + Send + Sync>| StandinError::Kubeconfig {
        file: file.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| unusable(error.into()))?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| unusable(error.into()))?;
    // The work loop tries again by itself, and sooner.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| unusable(error.into()))
}
