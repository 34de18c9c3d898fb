//! Arguments of `trace`.

use super::duration;
use clap::Args;
use std::{path::PathBuf, time::Duration};

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
    /// Kubeconfig of the hub; default: the project's
    #[arg(long, value_name = "PATH")]
    pub(crate) hub_kubeconfig: Option<PathBuf>,
    /// Context of the hub; with it, the hub is read too
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) hub_context: String,
    /// Context of the cell of a city or location; with it, the cell is read too
    #[arg(long, value_name = "CODE=CONTEXT", value_parser = cell)]
    pub(crate) cell: Vec<(String, String)>,
    /// Read the cells through the hub's proxy
    #[arg(long)]
    pub(crate) via_hub: bool,
    /// Time after which a hop that waits is broken
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2m")]
    pub(crate) stuck_after: Duration,
    /// Trace again at each change, until all is whole
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Parses `CITY=CONTEXT`.
fn cell(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((city, context)) if !city.is_empty() && !context.is_empty() => {
            Ok((city.to_owned(), context.to_owned()))
        }
        _ => Err(format!("{text:?} is not CITY=CONTEXT")),
    }
}
