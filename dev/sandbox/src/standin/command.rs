//! `fedgate-sandbox standin`: runs the stand-in as a separate process.

use super::run;
use crate::{SandboxError, child};
use clap::Args;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

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
    pub async fn run(self) -> Result<(), SandboxError> {
        child::begin_log();
        let hub = child::client(&self.hub_kubeconfig, None).await?;
        let mut members = BTreeMap::new();
        for (name, file) in &self.members {
            members.insert(Arc::from(name.as_str()), child::client(file, None).await?);
        }
        tokio::select! {
            () = child::shutdown_signal() => Ok(()),
            error = run(hub, members) => Err(SandboxError::Options(format!(
                "a task of the Karmada stand-in broke off: {error}; this is a defect of the stand-in"
            ))),
        }
    }
}
