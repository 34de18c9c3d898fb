//! Arguments of the commands that change something, but those of `deploy`.

use super::{duration, number};
use clap::{Args, Subcommand};
use std::time::Duration;

/// How much of a change is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DryRun {
    /// The change is written.
    #[default]
    None,
    /// The change is computed here.
    Client,
    /// The server checks it and stores nothing.
    Server,
}

impl DryRun {
    /// The words after a result that was not written; empty if it was.
    pub(crate) const fn note(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// Flags of the commands that write a spec and wait for its rollout.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Show the result, and write nothing
    #[arg(long, value_enum, value_name = "HOW", default_value = "none")]
    pub(crate) dry_run: DryRun,
    /// The reason, kept in the history
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Wait until the change is done
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) wait: bool,
    /// The longest wait; 0 for none
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10m")]
    pub(crate) timeout: Duration,
    /// The longest wait while every unfinished city is blocked; below 30s also the time until a city is blocked; 0 for none
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2m")]
    pub(crate) stall_timeout: Duration,
}

/// Arguments of `scale`.
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// Number of instances in each city, 1 to 1000
    #[arg(long, value_name = "NUMBER", value_parser = number::<i64>, allow_negative_numbers = true)]
    pub(crate) min: i64,
    /// The placement; default: every one
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<String>,
    /// Flags of all changes.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Arguments of `restart`.
#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// Not possible: a city alone cannot be restarted
    #[arg(long, value_name = "CODE", hide = true)]
    pub(crate) city: Option<String>,
    /// Flags of all changes.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Arguments of `destroy`.
#[derive(Debug, Args)]
pub(crate) struct DestroyArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// Succeed if it does not exist
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Wait until the workload, its deployments and instances are gone
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) wait: bool,
    /// The longest wait; 0 for none
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10m")]
    pub(crate) timeout: Duration,
    /// Show what would be deleted, and delete nothing
    #[arg(long, value_enum, value_name = "HOW", default_value = "none")]
    pub(crate) dry_run: DryRun,
}

/// Arguments of `rollout`: a command, or the name of a workload whose rollout is followed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RolloutArgs {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Option<RolloutCommand>,
    /// Without a command.
    #[command(flatten)]
    pub(crate) status: RolloutStatusArgs,
}

/// A command of `rollout`.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Follow a rollout until its end
    Status(RolloutStatusArgs),
    /// List the revisions of a workload
    History(HistoryArgs),
    /// Go back to an earlier revision
    Undo(UndoArgs),
    /// Replace all instances, one at a time in each city
    Restart(RestartArgs),
    /// Pause the rollouts of a workload
    Pause(PauseArgs),
    /// Resume the paused rollouts of a workload
    Resume(ResumeArgs),
}

/// Arguments of `rollout pause`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// The placement; default: every one
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<String>,
    /// Show the result, and write nothing
    #[arg(long, value_enum, value_name = "HOW", default_value = "none")]
    pub(crate) dry_run: DryRun,
    /// The reason, kept in the history
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
}

/// Arguments of `rollout resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// The placement; default: every one
    #[arg(long, value_name = "NAME")]
    pub(crate) placement: Option<String>,
    /// Flags of all changes.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Arguments of `rollout status`.
#[derive(Debug, Args)]
pub(crate) struct RolloutStatusArgs {
    /// Name of the workload
    pub(crate) name: Option<String>,
    /// Wait for the end; false prints the state once
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) watch: bool,
    /// The longest wait; 0 for none
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub(crate) timeout: Duration,
    /// The longest wait while every unfinished city is blocked; below 30s also the time until a city is blocked; 0 for none
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2m")]
    pub(crate) stall_timeout: Duration,
    /// The revision; 0 for the newest, also if it changes
    #[arg(long, value_name = "NUMBER", value_parser = number::<u64>, default_value_t = 0)]
    pub(crate) revision: u64,
}

/// Arguments of `rollout history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// One revision with all its changes; 0 for the list
    #[arg(long, value_name = "NUMBER", value_parser = number::<u64>, default_value_t = 0)]
    pub(crate) revision: u64,
}

/// Arguments of `rollout undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Name of the workload
    pub(crate) name: String,
    /// The revision; 0 for the newest one that differs from the live workload
    #[arg(long, value_name = "NUMBER", value_parser = number::<u64>, default_value_t = 0)]
    pub(crate) to_revision: u64,
    /// Keep the scale settings of placements that stay
    #[arg(long)]
    pub(crate) keep_scale: bool,
    /// Flags of all changes.
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}
