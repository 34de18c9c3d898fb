//! The settings of the provisioner: every flag with its environment variable and meaning.

use super::{KindsArgs, ProcessArgs};
use clap::Args;
use std::path::PathBuf;

/// Flags of `fedgate provisioner`; each has an environment variable `FEDGATE_…`.
#[derive(Debug, Clone, Args)]
pub struct ProvisionerArgs {
    /// Kubeconfig of the Karmada hub, which has the Cells.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub(crate) hub_kubeconfig: PathBuf,
    /// Kubeconfig of the cluster that has the Secrets with the kubeconfigs of clusters. Default: the service account of the Pod.
    #[arg(long, env = "FEDGATE_HOME_KUBECONFIG", value_name = "PATH")]
    pub(crate) home_kubeconfig: Option<PathBuf>,
    /// The kinds that the gateway has: a cell serves all of them before it is opened.
    #[command(flatten)]
    pub(crate) kinds: KindsArgs,
    /// Namespace of the Secrets with the kubeconfigs of clusters. The provisioner may read every Secret of it.
    #[arg(
        long,
        env = "FEDGATE_SECRETS_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-provisioner"
    )]
    pub(crate) secrets_namespace: String,
    /// Namespace of the Lease on the hub, by which one replica leads.
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
        default_value = "fedgate-provisioner"
    )]
    pub(crate) lease_name: String,
    /// Flags of every role.
    #[command(flatten)]
    pub process: ProcessArgs,
}
