//! Arguments of `trace`.

use super::duration;
use clap::Args;
use std::time::Duration;

/// Arguments of `trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Name of the workload
    #[arg(value_name = "NAME")]
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
