//! Arguments of the commands about the project's account: `quota` and `activation`.

use super::duration;
use clap::{Args, Subcommand};
use std::time::Duration;

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
