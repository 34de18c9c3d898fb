//! The arguments of `fedgate cells` and `fedgate projects`.

use super::{executor::Mode, mode::SyncMode, registration::AccountRights};
use crate::args::KindsArgs;
use clap::{Args, Subcommand, ValueEnum};
use fedgate_api::names::ProjectKey;
use fedgate_terminal::error::Error;
use std::{path::PathBuf, time::Duration};

/// The hub, as its administrator.
#[derive(Debug, Clone, Args)]
pub struct HubArgs {
    /// Kubeconfig of an administrator of the Karmada hub.
    #[arg(long, env = "FEDGATE_HUB_KUBECONFIG", value_name = "PATH")]
    pub hub_kubeconfig: PathBuf,
    /// Context in it. Default: its current context.
    #[arg(long, value_name = "NAME")]
    pub hub_context: Option<String>,
}

/// Planes of a command for one cell.
#[derive(Debug, Clone, Args)]
pub struct CellArgs {
    /// Name of the cell: of its Karmada Cluster.
    #[arg(value_name = "NAME", value_parser = cell_name)]
    pub name: String,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// Kubeconfig of an administrator of the cell.
    #[arg(long, value_name = "PATH")]
    pub cell_kubeconfig: Option<PathBuf>,
    /// Context in it. Default: its current context.
    #[arg(long, value_name = "NAME", requires = "cell_kubeconfig")]
    pub cell_context: Option<String>,
}

/// Whether changes are made, or shown.
#[derive(Debug, Clone, Copy, Args)]
pub struct WriteArgs {
    /// Show the changes and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl WriteArgs {
    /// The handling of changes.
    pub fn mode(self, output: Option<PrintFormat>) -> Mode {
        match (output, self.dry_run) {
            (Some(PrintFormat::Yaml), _) => Mode::Print,
            (None, true) => Mode::DryRun,
            (None, false) => Mode::Write,
        }
    }
}

/// The commands of `fedgate cells`.
#[derive(Debug, Subcommand)]
pub enum CellsCommand {
    /// Register a cluster as a cell of a city: with Karmada, its definitions and roles, and last its city.
    Join(Box<JoinArgs>),
    /// List the hub's cells with their cities and their use.
    List(ListArgs),
    /// Let the gateway move all deployments to other cells of the city, then withdraw the cell.
    Drain(DrainArgs),
    /// Let new deployments come to a drained or cordoned cell again.
    Uncordon(UncordonArgs),
    /// Request the move of a deployment to another cell of its city.
    Move(MoveArgs),
    /// Request moves of deployments until the cells of a city run about equally many Instances.
    Balance(BalanceArgs),
    /// Take a drained cell away: its credential, its Cluster, and everything that join has made.
    Leave(LeaveArgs),
    /// Issue, revoke or show the cell's credential for the hub.
    Credential(CredentialArgs),
}

/// Arguments of `fedgate cells join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// The cell and its planes.
    #[command(flatten)]
    pub cell: CellArgs,
    /// Its settings.
    #[command(flatten)]
    pub spec: JoinSpec,
    /// Write the cell's kubeconfig for the hub to this file, mode 0600; - for standard output.
    #[arg(long, value_name = "PATH")]
    pub credential_out: Option<PathBuf>,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
    /// Print the objects instead of applying them; credentials are left out.
    #[arg(long, short, value_enum, value_name = "FORMAT", conflicts_with_all = ["dry_run", "credential_out"])]
    pub output: Option<PrintFormat>,
}

/// Settings of a join: flags of `fedgate cells join`, or fields of a Cell.
#[derive(Debug, Clone, Args)]
pub struct JoinSpec {
    /// City code: the value of label topology.datum.net/city-code.
    #[arg(long, value_name = "CODE", value_parser = city)]
    pub city: String,
    /// Whether Karmada writes to the cell, or karmada-agent in the cell reads from the hub. It cannot change later.
    #[arg(long, value_enum, default_value = "push")]
    pub mode: SyncMode,
    /// With --mode pull: run karmada-agent in the cell with this image, of the hub's version of Karmada.
    #[arg(long, value_name = "IMAGE")]
    pub agent_image: Option<String>,
    /// Address of the cell's API server as the hub reaches it; with --mode pull as it is shown. Default: the server in --cell-kubeconfig.
    #[arg(long, value_name = "URL")]
    pub cell_endpoint: Option<String>,
    /// Address of the hub as the cell reaches it. Default: the server in --hub-kubeconfig.
    #[arg(long, value_name = "URL")]
    pub hub_endpoint: Option<String>,
    /// Rights of Karmada's account at the cell.
    #[arg(long, value_enum, default_value = "narrow")]
    pub rights: AccountRights,
    /// Let Karmada's API server forward users' requests to the cell (clusters/proxy), as them; needs --rights full.
    #[arg(long)]
    pub proxy: bool,
    /// Use a Cluster of this name that another program has made, if it is the same member.
    #[arg(long)]
    pub adopt: bool,
    /// Lifetime of the cell's credential; the hub may shorten it.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "8760h")]
    pub credential_lifetime: Duration,
    /// Run fedgate in the cell with this image.
    #[arg(long, value_name = "IMAGE")]
    pub agent_image_cell: Option<String>,
    /// Name of the cell's Location. Default: the cell's name.
    #[arg(long, value_name = "NAME", requires = "agent_image_cell")]
    pub location: Option<String>,
    /// Leave definitions out: another tool, such as Helm or Argo CD, installs them.
    #[arg(long)]
    pub skip_crds: bool,
    /// How long to wait until Karmada calls the cell Ready.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "5m")]
    pub wait: Duration,
}

impl JoinSpec {
    /// Fails for flags that do not go together.
    pub fn check(&self) -> Result<(), Error> {
        let (what, cause) = match (self.mode, &self.agent_image) {
            (SyncMode::Pull, None) => (
                "--mode pull needs --agent-image",
                "it is an image of karmada-agent, of the hub's version of Karmada",
            ),
            (SyncMode::Push, Some(_)) => (
                "--agent-image needs --mode pull",
                "with --mode push no karmada-agent runs in the cell; the image of its own program is --agent-image-cell",
            ),
            (SyncMode::Pull, Some(_)) if self.proxy => (
                "--proxy needs --mode push",
                "with --mode pull the hub holds no credential of the cell to forward requests with",
            ),
            _ if self.proxy && self.rights != AccountRights::Full => (
                "--proxy needs --rights full",
                "Karmada then writes a ClusterRole of the cell that may impersonate users, which needs all rights",
            ),
            _ => return Ok(()),
        };
        Err(Error::usage(what).because(cause))
    }
}

/// The format of printed objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrintFormat {
    /// A YAML stream.
    Yaml,
}

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Columns.
    Table,
    /// More columns.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// A name a line.
    Name,
}

/// Arguments of `fedgate cells list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// Format of the list.
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: ListFormat,
}

/// Arguments of `fedgate cells drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The cell and its planes.
    #[command(flatten)]
    pub cell: CellArgs,
    /// Only keep new deployments away; everything that runs stays.
    #[arg(long)]
    pub cordon: bool,
    /// Withdraw deployments although no other cell runs them.
    #[arg(long)]
    pub allow_outage: bool,
    /// How long to wait for other cells, and until the cell is empty.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "30m")]
    pub timeout: Duration,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Arguments of `fedgate cells move`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Key of the project.
    #[arg(value_name = "PROJECT", value_parser = project_key)]
    pub project: ProjectKey,
    /// The deployment, as NAMESPACE/NAME.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = object)]
    pub object: (String, String),
    /// The cell to which it is to move.
    #[arg(long, value_name = "CELL", value_parser = cell_name)]
    pub to: String,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Arguments of `fedgate cells balance`.
#[derive(Debug, Args)]
pub struct BalanceArgs {
    /// Code of the city.
    #[arg(value_name = "CITY", value_parser = city)]
    pub city: String,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Arguments of `fedgate cells uncordon`.
#[derive(Debug, Args)]
pub struct UncordonArgs {
    /// Name of the cell.
    #[arg(value_name = "NAME", value_parser = cell_name)]
    pub name: String,
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Arguments of `fedgate cells leave`.
#[derive(Debug, Args)]
pub struct LeaveArgs {
    /// The cell and its planes.
    #[command(flatten)]
    pub cell: CellArgs,
    /// Take it away although it is in use.
    #[arg(long)]
    pub force: bool,
    /// Take away a Cluster that another program has made.
    #[arg(long)]
    pub adopt: bool,
    /// How long to wait until Karmada lets the Cluster go.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "10m")]
    pub wait: Duration,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// The use of `fedgate cells credential`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CredentialAction {
    /// Replace Karmada's token at the cell (--cell-kubeconfig), the cell's token of the hub (--out), or both.
    Rotate,
    /// End all tokens of the cell.
    Revoke,
    /// Show the account, never a secret.
    Show,
}

/// Arguments of `fedgate cells credential`.
#[derive(Debug, Args)]
pub struct CredentialArgs {
    /// The cell and its planes; with rotate its kubeconfig rotates Karmada's token there.
    #[command(flatten)]
    pub cell: CellArgs,
    /// The action.
    #[arg(value_enum, value_name = "ACTION")]
    pub action: CredentialAction,
    /// Address of the hub as the cell reaches it. Default: the server in --hub-kubeconfig.
    #[arg(long, value_name = "URL")]
    pub hub_endpoint: Option<String>,
    /// With rotate: the file for the new kubeconfig, mode 0600; - for standard output.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Lifetime of the new token; the hub may shorten it.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "8760h")]
    pub lifetime: Duration,
    /// With rotate and --cell-kubeconfig: leave the old token valid, e.g. until Karmada has been restarted.
    #[arg(long, requires = "cell_kubeconfig")]
    pub keep_old_tokens: bool,
    /// With rotate and --cell-kubeconfig: how long to wait until Karmada has read the new token.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "15m")]
    pub wait: Duration,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// The commands of `fedgate projects`.
#[derive(Debug, Subcommand)]
pub enum ProjectsCommand {
    /// Let the gateway serve a project: definitions, roles and a credential there, and the Secret on the hub.
    Add(Box<ProjectAddArgs>),
    /// List the projects of the hub with their use.
    List(ProjectListArgs),
    /// Replace a project's credential; the old one ends.
    Rotate(Box<ProjectAddArgs>),
    /// Take a project from the gateway: the Secret on the hub, and the credential.
    Remove(ProjectRemoveArgs),
}

/// The place of the projects' Secrets.
#[derive(Debug, Clone, Args)]
pub struct SecretsArgs {
    /// The hub.
    #[command(flatten)]
    pub hub: HubArgs,
    /// Namespace of the projects' Secrets on the hub.
    #[arg(long, value_name = "NS", default_value = "fedgate-system")]
    pub secrets_namespace: String,
}

/// Arguments of `fedgate projects add` and `rotate`.
#[derive(Debug, Args)]
pub struct ProjectAddArgs {
    /// Key of the project: the name of its Secret.
    #[arg(value_name = "NAME", value_parser = project_name)]
    pub name: String,
    /// The hub.
    #[command(flatten)]
    pub secrets: SecretsArgs,
    /// Kubeconfig of an administrator of the project.
    #[arg(long, value_name = "PATH")]
    pub project_kubeconfig: PathBuf,
    /// Context in it. Default: its current context.
    #[arg(long, value_name = "NAME")]
    pub project_context: Option<String>,
    /// Address of the project as the gateway reaches it. Default: the server in --project-kubeconfig.
    #[arg(long, value_name = "URL")]
    pub project_endpoint: Option<String>,
    /// Lifetime of the credential; the project may shorten it.
    #[arg(long, value_name = "DURATION", value_parser = crate::args::duration, default_value = "8760h")]
    pub lifetime: Duration,
    /// Leave definitions out: another tool, such as Helm or Argo CD, installs them.
    #[arg(long)]
    pub skip_crds: bool,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
    /// Print the objects instead of applying them; credentials are left out.
    #[arg(long, short, value_enum, value_name = "FORMAT", conflicts_with = "dry_run")]
    pub output: Option<PrintFormat>,
}

/// Arguments of `fedgate projects list`.
#[derive(Debug, Args)]
pub struct ProjectListArgs {
    /// The hub.
    #[command(flatten)]
    pub secrets: SecretsArgs,
    /// Format of the list.
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: ListFormat,
}

/// Arguments of `fedgate projects remove`.
#[derive(Debug, Args)]
pub struct ProjectRemoveArgs {
    /// Key of the project.
    #[arg(value_name = "NAME", value_parser = project_name)]
    pub name: String,
    /// The hub.
    #[command(flatten)]
    pub secrets: SecretsArgs,
    /// Kubeconfig of an administrator of the project, to end the credential there.
    #[arg(long, value_name = "PATH")]
    pub project_kubeconfig: Option<PathBuf>,
    /// Context in it. Default: its current context.
    #[arg(long, value_name = "NAME", requires = "project_kubeconfig")]
    pub project_context: Option<String>,
    /// Remove it although its objects are in use.
    #[arg(long)]
    pub force: bool,
    /// The kinds beside those that are loaded by default.
    #[command(flatten)]
    pub kinds: KindsArgs,
    /// Whether changes are made.
    #[command(flatten)]
    pub write: WriteArgs,
}

/// A cell's name: a DNS label that Karmada can prefix for its execution namespace.
fn cell_name(text: &str) -> Result<String, String> {
    const LONGEST: usize = 48;
    if text.len() <= LONGEST && fedgate_api::names::is_object_name(text) && !text.contains('.') {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a cell's name has 1 to {LONGEST} lower-case letters, digits and '-'"
    ))
}

fn city(text: &str) -> Result<String, String> {
    fedgate_api::names::CityCode::parse(text)
        .map(|city| city.as_str().to_owned())
        .map_err(|error| error.to_string())
}

fn project_key(text: &str) -> Result<ProjectKey, String> {
    ProjectKey::parse(text).map_err(|error| error.to_string())
}

/// Namespace and name of an object.
fn object(text: &str) -> Result<(String, String), String> {
    let both = text
        .split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let both = both.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    both.ok_or_else(|| "give NAMESPACE/NAME".to_owned())
}

/// A project's key that is also the name of a Secret.
fn project_name(text: &str) -> Result<String, String> {
    let key = fedgate_api::names::ProjectKey::parse(text).map_err(|error| error.to_string())?;
    if fedgate_api::names::is_object_name(key.as_str()) {
        return Ok(key.as_str().to_owned());
    }
    Err("a project's name has lower-case letters, digits and '-'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use fedgate_terminal::error::Kind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        join: JoinArgs,
    }

    fn check(flags: &[&str]) -> Result<(), String> {
        let line = ["join", "dfw-2", "--city", "DFW", "--hub-kubeconfig", "hub.yaml"];
        let line = Line::try_parse_from(line.iter().chain(flags)).unwrap();
        line.join.spec.check().map_err(|error| {
            assert_eq!(error.kind, Kind::Usage);
            error.what
        })
    }

    #[test]
    fn flags_of_the_other_mode_are_refused_by_name() {
        let refused = |flags: &[&str], what: &str| assert_eq!(check(flags), Err(what.to_owned()));
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["--rights", "full", "--proxy"]), Ok(()));
        assert_eq!(check(&["--mode", "pull", "--agent-image", "x"]), Ok(()));
        refused(&["--proxy"], "--proxy needs --rights full");
        refused(&["--mode", "pull"], "--mode pull needs --agent-image");
        refused(&["--agent-image", "x"], "--agent-image needs --mode pull");
        refused(
            &[
                "--mode",
                "pull",
                "--agent-image",
                "x",
                "--rights",
                "full",
                "--proxy",
            ],
            "--proxy needs --mode push",
        );
    }
}
