//! The command line: each command with its flags. `deploy` has a file of its own; `changes` has the other commands that change
//! something, and the flags that they share.

mod changes;
mod deploy;
mod examples;

pub(crate) use changes::{
    ChangeArgs, DestroyArgs, DryRun, HistoryArgs, PauseArgs, RestartArgs, ResumeArgs, RolloutArgs,
    RolloutCommand, RolloutStatusArgs, ScaleArgs, UndoArgs,
};
pub(crate) use deploy::{DeployArgs, DeployFlags, Edit, OnFailure};
#[cfg(test)]
pub(crate) use deploy::{pair, port, variable};

use crate::{
    output::{Format, style::ColorChoice},
    plane::Choice,
    view::HealthWord,
};
use clap::{Args, Parser, Subcommand};
use fedgate_terminal::time::duration;
use std::time::Duration;

/// Version and revision, by which executables are compared.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("FEDGATE_BUILD_REVISION"),
    ")"
);

/// Run workloads in the cities of an edge cloud.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl compute",
    bin_name = "kubectl compute",
    version = VERSION,
    // As in kubectl, the last of two flags counts.
    args_override_self = true,
    after_help = examples::EXIT_CODES
)]
pub(crate) struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of all commands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global flags")]
pub(crate) struct Global {
    /// The control plane.
    #[command(flatten)]
    pub(crate) choice: Choice,
    /// Format: table, wide, json, yaml, name, or jsonpath=TEMPLATE
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
    /// Print no line of column names
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    /// When colours are used
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// Time for one request, e.g. 90s; 0 for no limit
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) request_timeout: Duration,
    /// Print no progress, footers and hints
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Answer the command's question with yes
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List workloads
    #[command(after_help = examples::LISTS)]
    Workloads(WorkloadsArgs),
    /// List instances
    #[command(after_help = examples::LISTS)]
    Instances(InstancesArgs),
    /// Create a workload, or change it
    #[command(after_help = examples::DEPLOY)]
    Deploy(Box<DeployArgs>),
    /// Delete a workload and its instances
    Destroy(DestroyArgs),
    /// Show a workload's placements and cities
    Status(StatusArgs),
    /// Set the number of instances in each city
    Scale(ScaleArgs),
    /// Follow, list, undo and restart rollouts
    #[command(after_help = examples::ROLLOUT)]
    Rollout(RolloutArgs),
    /// Replace all instances, one at a time in each city
    Restart(RestartArgs),
    /// Show what applying a file, or undoing, would change; exit code 1 if that is something
    #[command(after_help = examples::DIFF)]
    Diff(DiffArgs),
    /// Follow a workload through all planes, and show the first broken link
    #[command(after_help = examples::TRACE)]
    Trace(TraceArgs),
    /// Show the project's quota, and the instances that wait for it
    Quota(QuotaArgs),
    /// Show whether the project may use compute, or request it
    Activation(ActivationArgs),
    /// Print the script that completes words in a shell
    #[command(after_help = COMPLETION)]
    Completion {
        /// The shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: Shell,
    },
    /// Print the versions of this command and of the server
    Version,
}

/// How the scripts are used.
const COMPLETION: &str = "\
kubectl completes `kubectl compute` by itself (1.26 or later) if this executable is also in the PATH as
kubectl_complete-compute, e.g. by a symbolic link. The scripts are for kubectl-compute without kubectl:

  bash        source <(kubectl-compute completion bash)
  zsh         source <(kubectl-compute completion zsh)
  fish        kubectl-compute completion fish | source
  powershell  kubectl-compute completion powershell | Out-String | Invoke-Expression";

/// A shell that words are completed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
    /// `PowerShell`.
    Powershell,
}

/// A command about one object.
#[derive(Debug, Subcommand)]
pub(crate) enum DescribeCommand {
    /// Show one in full
    Describe {
        /// Name of the object
        name: String,
    },
}

/// Flags of `workloads`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkloadsArgs {
    /// The command; without one, all are listed.
    #[command(subcommand)]
    pub(crate) command: Option<DescribeCommand>,
    /// Only those with this health
    #[arg(long, value_name = "WORD", value_enum, ignore_case = true)]
    pub(crate) health: Option<HealthWord>,
    /// Only those with a placement in this city, or at the location of this name
    #[arg(long, value_name = "CODE")]
    pub(crate) city: Option<String>,
    /// Print each change, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Flags of `instances`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InstancesArgs {
    /// The command; without one, all are listed.
    #[command(subcommand)]
    pub(crate) command: Option<DescribeCommand>,
    /// Only those of this workload
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// Only those in this city, or at the location of this name
    #[arg(long, value_name = "CODE")]
    pub(crate) city: Option<String>,
    /// Print each change, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Flags of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Name of a workload, to compare it with a revision
    #[arg(value_name = "NAME", conflicts_with = "file", requires = "to_revision")]
    pub(crate) name: Option<String>,
    /// File with one Workload; - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// The revision that `rollout undo` would go back to
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = number::<u64>,
        default_value_t = 0,
        hide_default_value = true,
        requires = "name"
    )]
    pub(crate) to_revision: u64,
    /// Print lines of YAML, with three lines around each change
    #[arg(long)]
    pub(crate) unified: bool,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// Show it again at each change, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Arguments of `quota`.
#[derive(Debug, Args)]
pub(crate) struct QuotaArgs {
    /// Only what is used up, or waits
    #[arg(long)]
    pub(crate) constrained: bool,
    /// Count the instances of each city and type
    #[arg(long)]
    pub(crate) by_city: bool,
}

/// Arguments of `activation`.
#[derive(Debug, Args)]
pub(crate) struct ActivationArgs {
    /// The command; without one, the state is shown.
    #[command(subcommand)]
    pub(crate) command: Option<ActivationCommand>,
    /// Wait until the provider has decided
    #[arg(long)]
    pub(crate) wait: bool,
    /// The longest wait; 0 for none
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30m")]
    pub(crate) timeout: Duration,
}

/// A command of `activation`.
#[derive(Debug, Subcommand)]
pub(crate) enum ActivationCommand {
    /// Request compute for the project
    Request {
        /// A message to the provider
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        message: String,
    },
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// Only this placement
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<String>,
    /// Only this city, or the location of this name
    #[arg(long, value_name = "CODE")]
    pub(crate) city: Option<String>,
    /// Time after which a hop that waits is broken
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2m")]
    pub(crate) stuck_after: Duration,
    /// Trace again at each change, until all is whole
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Parses a whole number.
fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "a whole number is expected".to_owned())
}
