//! The settings of a member's returns: every flag with its environment variable and meaning.

use super::{ConfigError, KindsArgs, ProcessArgs, ProcessConfig};
use clap::Args;
use std::{path::PathBuf, sync::Arc};

/// Flags of `fedgate returns`; each has an environment variable `FEDGATE_…`.
#[derive(Debug, Clone, Args)]
pub struct ReturnsArgs {
    /// Kubeconfig of the member's API server. Default: the service account of the Pod.
    #[arg(long, env = "FEDGATE_MEMBER_KUBECONFIG", value_name = "PATH")]
    pub member_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the Karmada hub, for user fedgate-cell-NAME of group fedgate-cells.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub hub_kubeconfig: PathBuf,
    /// Name of the member's Karmada Cluster.
    #[arg(long, env = "FEDGATE_CELL_NAME", value_name = "NAME")]
    pub name: String,
    /// The kinds that the gateway has: those with returns are watched.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Namespace of the Lease at the member.
    #[arg(
        long,
        env = "FEDGATE_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-system"
    )]
    pub namespace: String,
    /// Name of the Lease.
    #[arg(
        long,
        env = "FEDGATE_LEASE_NAME",
        value_name = "NAME",
        default_value = "fedgate-returns"
    )]
    pub lease_name: String,
    /// Flags of every role.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// The settings of a member's returns, complete and consistent.
#[derive(Debug, Clone)]
pub struct ReturnsConfig {
    /// Kubeconfig of the member; `None` is the service account of the Pod.
    pub member_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the hub.
    pub hub_kubeconfig: PathBuf,
    /// Name of the member's Karmada Cluster.
    pub name: Arc<str>,
    /// The kinds that the gateway has.
    pub kinds: KindsArgs,
    /// Namespace and name of the Lease; `None` without election.
    pub lease: Option<(String, String)>,
    /// Settings of the process.
    pub process: ProcessConfig,
}

impl ReturnsArgs {
    /// Checks that the flags are consistent.
    pub fn into_config(self) -> Result<ReturnsConfig, ConfigError> {
        // Destructured in full: a flag that is added and not handled here does not compile.
        let Self {
            member_kubeconfig,
            hub_kubeconfig,
            name,
            kinds,
            namespace,
            lease_name,
            process,
        } = self;
        let process = process.into_config()?;
        Ok(ReturnsConfig {
            member_kubeconfig,
            hub_kubeconfig,
            name: name.into(),
            kinds,
            lease: process.leader_elect.then_some((namespace, lease_name)),
            process,
        })
    }
}
