//! The settings of the provisioner: every flag with its environment variable and meaning.

use super::{KindsArgs, ProcessArgs};
use clap::{Args, ValueEnum};
use fedgate_api::cell::ProviderKind;
use std::path::PathBuf;

/// A value of `--providers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProviderArg {
    /// Clusters that somebody else made.
    Existing,
    /// Clusters of Cluster API.
    #[value(name = "clusterAPI")]
    ClusterApi,
    /// Machines, of which the provisioner makes a cluster.
    Hosts,
}

impl ProviderArg {
    /// The kind of the provider.
    pub(crate) const fn kind(self) -> ProviderKind {
        match self {
            Self::Existing => ProviderKind::Existing,
            Self::ClusterApi => ProviderKind::ClusterApi,
            Self::Hosts => ProviderKind::Hosts,
        }
    }
}

/// Flags of `fedgate provisioner`; each has an environment variable `FEDGATE_…`.
#[derive(Debug, Clone, Args)]
pub struct ProvisionerArgs {
    /// Kubeconfig of the Karmada hub, which has the Cells.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub(crate) hub_kubeconfig: PathBuf,
    /// Kubeconfig of the cluster that has the Secrets of Cells and the Clusters of Cluster API. Default: the service account of the Pod.
    #[arg(long, env = "FEDGATE_HOME_KUBECONFIG", value_name = "PATH")]
    pub(crate) home_kubeconfig: Option<PathBuf>,
    /// The kinds that the gateway has: a cell serves all of them before it is opened.
    #[command(flatten)]
    pub(crate) kinds: KindsArgs,
    /// Namespace of the Secrets and ConfigMaps of Cells. The provisioner may read every Secret of it.
    #[arg(
        long,
        env = "FEDGATE_SECRETS_NAMESPACE",
        value_name = "NS",
        default_value = "fedgate-provisioner"
    )]
    pub(crate) secrets_namespace: String,
    /// Providers of Cells that the provisioner runs. `hosts` needs the program ssh of OpenSSH 9.1 or later.
    #[arg(
        long,
        env = "FEDGATE_PROVIDERS",
        value_name = "KINDS",
        value_enum,
        value_delimiter = ',',
        default_value = "existing"
    )]
    pub(crate) providers: Vec<ProviderArg>,
    /// Namespaces in which Cells may use or create Clusters of Cluster API. In each the provisioner needs the role
    /// fedgate-provisioner-cluster-api.
    #[arg(
        long,
        env = "FEDGATE_CLUSTER_API_NAMESPACES",
        value_name = "NS",
        value_delimiter = ','
    )]
    pub(crate) cluster_api_namespaces: Vec<String>,
    /// Folder for private keys of SSH. A key is there only while steps run. Mount a volume in memory there, so that no key reaches a disk.
    #[arg(
        long,
        env = "FEDGATE_RUNTIME_DIRECTORY",
        value_name = "PATH",
        default_value = "/run/fedgate"
    )]
    pub(crate) runtime_directory: PathBuf,
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
