//! The settings of a member's returns: every flag with its environment variable and meaning.

use super::{KindsArgs, ProcessArgs};
use clap::Args;
use std::path::PathBuf;

/// Flags of `fedgate returns`; each has an environment variable `FEDGATE_…`.
#[derive(Debug, Clone, Args)]
pub struct ReturnsArgs {
    /// Kubeconfig of the member's API server. Default: the service account of the Pod.
    #[arg(long, env = "FEDGATE_MEMBER_KUBECONFIG", value_name = "PATH")]
    pub(crate) member_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the Karmada hub, for user fedgate-cell-NAME of group fedgate-cells.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub(crate) hub_kubeconfig: PathBuf,
    /// Name of the member's Karmada Cluster.
    #[arg(long, env = "FEDGATE_CELL_NAME", value_name = "NAME")]
    pub(crate) name: String,
    /// The kinds that the gateway has: those with returns are watched.
    #[command(flatten)]
    pub(crate) kinds: KindsArgs,
    /// Namespace of the Lease at the member.
    #[arg(
        long,
        env = "FEDGATE_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-system"
    )]
    pub(crate) namespace: String,
    /// Name of the Lease.
    #[arg(
        long,
        env = "FEDGATE_LEASE_NAME",
        value_name = "NAME",
        default_value = "fedgate-returns"
    )]
    pub(crate) lease_name: String,
    /// Flags of every role.
    #[command(flatten)]
    pub process: ProcessArgs,
}
