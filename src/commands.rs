//! The command line of `fedgate`: its commands and flags, and their tables in the README.

use crate::config::{CellArgs, GatewayArgs};
use clap::{Arg, Args, CommandFactory, Parser, ValueEnum};
use std::{fmt::Write, path::PathBuf};

/// The commands with their own table.
const ROLES: [&str; 2] = ["gateway", "cell"];

/// A federation gateway for Karmada.
#[derive(Debug, Parser)]
#[command(name = "fedgate", version)]
pub enum Command {
    /// Sync tenants' specs from their projects to the hub, and return status and Instances.
    Gateway(Box<GatewayArgs>),
    /// In a cell: run deployments as Instances, and write the Instances back to the hub.
    Cell(Box<CellArgs>),
    /// Check hub, projects and cells for all requirements of fedgate; each line has its next step, and nothing is written.
    Doctor(DoctorArgs),
    /// Print the manifests that an administrator applies: definitions, roles, policies, interpreters, the deployment,
    /// monitors and alerts.
    Manifests(ManifestsArgs),
    /// Check the Lua scripts of federated kinds, without a cluster.
    #[cfg(feature = "checks")]
    #[command(subcommand)]
    Interpreters(InterpretersCommand),
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
    /// Folder with additional federated kinds.
    #[arg(long, env = "FEDGATE_INTERPRETERS", value_name = "DIR")]
    pub interpreters: Option<PathBuf>,
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
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    pub write: Option<PathBuf>,
    /// Compare the files under this folder with the generated ones; fail if they differ.
    #[arg(long, value_name = "DIR")]
    pub check: Option<PathBuf>,
    /// Folder with additional federated kinds: includes their roles and interpreters.
    #[arg(long, value_name = "DIR")]
    pub interpreters: Option<PathBuf>,
    /// Address below which the runbooks are, for the annotation `runbook_url` of alerts.
    #[arg(long, value_name = "URL", default_value = "docs/runbooks")]
    pub runbooks: String,
}

/// The commands of `fedgate interpreters`.
#[cfg(feature = "checks")]
#[derive(Debug, clap::Subcommand)]
pub enum InterpretersCommand {
    /// Run the cases beside the scripts, and show how results differ from the expected ones.
    Test(KindsDir),
    /// Find errors that Karmada would reject or misinterpret.
    Lint(KindsDir),
}

/// Federated kinds to check.
#[cfg(feature = "checks")]
#[derive(Debug, Args)]
pub struct KindsDir {
    /// Folder of federated kinds.
    #[arg(default_value = "interpreters")]
    pub dir: PathBuf,
}

/// The flags of `fedgate gateway` as a Markdown table.
pub fn gateway_flags() -> String {
    flags(ROLES[0])
}

/// The flags of `fedgate cell` as a Markdown table.
pub fn cell_flags() -> String {
    flags(ROLES[1])
}

fn flags(role: &str) -> String {
    let mut table = header("flag");
    let all = Command::command();
    for flag in all
        .find_subcommand(role)
        .into_iter()
        .flat_map(clap::Command::get_arguments)
    {
        table.push_str(&row(flag));
    }
    table
}

/// All other commands, and those of `programs`, with their flags as a Markdown table.
pub fn other_commands(programs: &[clap::Command]) -> String {
    let mut table = header("command, flag");
    for command in Command::command().get_subcommands() {
        if !ROLES.contains(&command.get_name()) {
            describe(command, "fedgate", &mut table);
        }
    }
    for program in programs {
        for command in program.get_subcommands().filter(|c| !c.is_hide_set()) {
            describe(command, program.get_name(), &mut table);
        }
    }
    table
}

fn header(first: &str) -> String {
    format!("| {first} | environment | default | meaning |\n|---|---|---|---|\n")
}

/// Rows of a command, or of its subcommands. Hidden ones are internal.
fn describe(command: &clap::Command, parent: &str, table: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    if command.has_subcommands() {
        for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            describe(below, &name, table);
        }
        return;
    }
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(table, "| **`{name}`** | | | {about}. |");
    for flag in command.get_arguments().filter(|a| !a.is_hide_set()) {
        table.push_str(&row(flag));
    }
}

fn row(flag: &Arg) -> String {
    let name = flag.get_long().map_or_else(
        || flag.get_id().as_str().to_uppercase(),
        |long| format!("--{long}"),
    );
    let variable = flag
        .get_env()
        .map_or_else(|| "–".to_owned(), |v| format!("`{}`", v.to_string_lossy()));
    let defaults: Vec<_> = flag
        .get_default_values()
        .iter()
        .map(|v| format!("`{}`", v.to_string_lossy()))
        .collect();
    let default = match (defaults.is_empty(), flag.is_required_set()) {
        (false, _) => defaults.join(", "),
        (true, true) => "must be given".to_owned(),
        (true, false) => "–".to_owned(),
    };
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let values = flag.get_possible_values();
    let values = if values.is_empty() || values.iter().any(|v| v.get_name() == "true") {
        String::new()
    } else {
        let names: Vec<_> = values.iter().map(|v| format!("`{}`", v.get_name())).collect();
        format!(" One of {}.", names.join(", "))
    };
    format!("| `{name}` | {variable} | {default} | {help}.{values} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Command::command().debug_assert();
    }

    #[test]
    fn the_gateways_table_has_a_row_with_variable_and_meaning_for_every_flag() {
        let table = gateway_flags();
        for row in [
            "| `--hub-kubeconfig` | `FEDGATE_HUB_KUBECONFIG` | must be given | ",
            "| `--workers` | `FEDGATE_WORKERS` | `32` | How many keys are worked on at a time. |",
            "One of `single`, `directory`, `secrets`.",
        ] {
            assert!(table.contains(row), "{row} is missing in {table}");
        }
        assert_eq!(table.lines().count(), 2 + 34, "{table}");
    }

    #[test]
    fn the_other_table_has_all_commands_but_those_for_the_program_itself() {
        let table = other_commands(&[]);
        for row in [
            "| **`fedgate doctor`** | | | Check hub, projects and cells",
            "| `DIR` | – | `interpreters` | Folder of federated kinds. |",
        ] {
            assert!(table.contains(row), "{row} is missing in {table}");
        }
        assert!(!table.contains("--workers"), "{table}");
    }
}
