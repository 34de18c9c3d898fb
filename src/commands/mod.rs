//! The command line of `fedgate`: its commands and flags, and their tables in the reference.

mod flags;
mod tables;

pub use flags::chart_flags;
pub use tables::{other_commands, role_flags};

use crate::config::{self, CellArgs, GatewayArgs, ProvisionerArgs, ReturnsArgs};
use clap::{Args, Parser, ValueEnum};
use fedgate_operator::{
    args::KindsArgs,
    client::args::{ConsoleArgs, JournalArgs, StatusArgs, StuckArgs, TraceArgs},
    membership::args::{CellsCommand, ProjectsCommand},
};
use std::path::PathBuf;

/// Version and revision, by which executables are compared.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("FEDGATE_BUILD_REVISION"),
    ")"
);

/// A federation gateway for Karmada.
#[derive(Debug, Parser)]
#[command(name = "fedgate", version = VERSION)]
pub enum Command {
    /// Sync tenants' specs from their projects to the hub, and return status and Instances.
    Gateway(Box<GatewayArgs>),
    /// In a cell: run deployments as Instances, and write the Instances back to the hub.
    Cell(Box<CellArgs>),
    /// At a member: send the Secrets that objects living there name back to the hub.
    Returns(Box<ReturnsArgs>),
    /// Beside the hub: register the clusters of Cells with Karmada, drain them, and take them away again.
    Provisioner(Box<ProvisionerArgs>),
    /// Check hub, projects and cells for all requirements of fedgate; each line has its next step, and nothing is written.
    Doctor(DoctorArgs),
    /// Show the state of planes, delivery, stuck objects and cells, the worst first.
    Status(Box<StatusArgs>),
    /// List what does not go on, in groups with the same cause.
    Stuck(Box<StuckArgs>),
    /// Follow an object from its project to its cells and back, and show the first broken hop.
    Trace(Box<TraceArgs>),
    /// List the last writes, with their reasons and results.
    Journal(Box<JournalArgs>),
    /// Open the console in a browser, by way of a port of this machine; the browser gets no token.
    Console(Box<ConsoleArgs>),
    /// Join, list, drain and take away cells, and issue their credentials.
    #[command(subcommand)]
    Cells(CellsCommand),
    /// Add, list, rotate and remove projects.
    #[command(subcommand)]
    Projects(ProjectsCommand),
    /// Print the manifests that an administrator applies: definitions, roles, policies, interpreters, the deployments,
    /// monitors and alerts; or write them as files, or as a Helm chart.
    Manifests(ManifestsArgs),
    /// Check folders of federated kinds, and show what becomes of an object, without a cluster.
    #[cfg(feature = "checks")]
    #[command(subcommand)]
    Kinds(KindsCommand),
}

/// Planes to check.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Kubeconfig of the Karmada hub.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub hub_kubeconfig: PathBuf,
    /// Kubeconfig of a project, which is named by its file; may be repeated.
    #[arg(long = "project-kubeconfig", value_name = "PATH")]
    pub project_kubeconfigs: Vec<PathBuf>,
    /// Kubeconfig of a cell for its own API server; may be repeated.
    #[arg(long = "cell-kubeconfig", value_name = "NAME=PATH", value_parser = NamedPath::parse)]
    pub cell_kubeconfigs: Vec<NamedPath>,
    /// Kubeconfig of a cell for the hub; may be repeated.
    #[arg(long = "cell-hub-kubeconfig", value_name = "NAME=PATH", value_parser = NamedPath::parse)]
    pub cell_hub_kubeconfigs: Vec<NamedPath>,
    /// Kubeconfig of an administrator of the hub, for admission policies and columns.
    #[arg(long, value_name = "PATH")]
    pub admin_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the cluster that runs karmada-controller-manager, for its arguments.
    #[arg(long, value_name = "PATH")]
    pub karmada_host_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the cluster that runs the gateway's Pods, for the state of the gateway itself.
    #[arg(long, value_name = "PATH")]
    pub host_kubeconfig: Option<PathBuf>,
    /// The gateway's flag of this name: with hub, the rights that its reviews need on the hub are checked, too. With
    /// --host-kubeconfig its Pods say it.
    #[arg(
        long,
        env = "FEDGATE_ADMIN_AUTH",
        value_name = "MODE",
        value_enum,
        default_value = "token"
    )]
    pub admin_auth: config::AdminAuth,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Exit with 1 if a check is open, too.
    #[arg(long)]
    pub strict: bool,
    /// Format of the report.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: ReportFormat,
}

/// A file of something with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

impl NamedPath {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.to_owned(),
                path: path.into(),
            }),
            _ => Err("it must be NAME=PATH, with the name of the Karmada Cluster".to_owned()),
        }
    }
}

/// Format of the report of `fedgate doctor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A line for each check.
    Text,
    /// A JSON object.
    Json,
}

/// Manifests to generate, and their destination.
#[derive(Debug, Args)]
pub struct ManifestsArgs {
    /// Write the files under this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "check_chart"])]
    pub write: Option<PathBuf>,
    /// Write the Helm chart under this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "check_chart"])]
    pub write_chart: Option<PathBuf>,
    /// Compare the files under this folder with the generated ones; fail if they differ.
    #[arg(long, value_name = "DIR")]
    pub check: Option<PathBuf>,
    /// Compare the Helm chart under this folder with the generated one; fail if they differ.
    #[arg(long, value_name = "DIR")]
    pub check_chart: Option<PathBuf>,
    /// Folder with additional federated kinds, or of one kind: includes their roles and interpreters.
    #[arg(long, value_name = "DIR")]
    pub interpreters: Option<PathBuf>,
    /// Kinds in the executable that are not loaded by default, by `<plural>.<group>`, e.g. clusters.azimuth.stackhpc.com.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub builtin_kinds: Vec<String>,
    /// Address below which the runbooks are, for the annotation `runbook_url` of alerts.
    #[arg(long, value_name = "URL", default_value = "docs/runbooks")]
    pub runbooks: String,
}

/// The commands of `fedgate kinds`.
#[cfg(feature = "checks")]
#[derive(Debug, clap::Subcommand)]
pub enum KindsCommand {
    /// Run the cases beside the scripts, and show how results differ from the expected ones.
    Test(KindsDir),
    /// Find what the gateway would refuse to start with, and scripts that Karmada would reject or misinterpret.
    Lint(KindsDir),
}

/// Federated kinds to check.
#[cfg(feature = "checks")]
#[derive(Debug, Args)]
pub struct KindsDir {
    /// Folder of federated kinds, or of one kind.
    #[arg(default_value = "interpreters")]
    pub dir: PathBuf,
}

/// Local planes for trials and tests of fedgate: a hub, projects and cells. And what becomes of an object of a kind.
#[cfg(feature = "sandbox")]
#[derive(Debug, Parser)]
#[command(name = "fedgate-sandbox", version)]
pub enum DeveloperCommand {
    /// The planes.
    #[command(flatten)]
    Sandbox(fedgate_sandbox::SandboxCommand),
    /// Show every object and request that an example object of a federated kind leads to, in their order.
    Explain(fedgate_explain::ExplainArgs),
}
