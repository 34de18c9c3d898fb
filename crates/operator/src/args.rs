//! Flags that several commands have.

use std::{path::PathBuf, time::Duration};

/// The federated kinds beside those that are loaded by default.
#[derive(Debug, Clone, clap::Args)]
pub struct KindsArgs {
    /// Folder with additional federated kinds.
    #[arg(long, env = "FEDGATE_INTERPRETERS", value_name = "DIR")]
    pub interpreters: Option<PathBuf>,
    /// Kinds in the executable that are not loaded by default, by `<plural>.<group>`, e.g. clusters.azimuth.stackhpc.com.
    #[arg(
        long,
        env = "FEDGATE_BUILTIN_KINDS",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    pub builtin_kinds: Vec<String>,
}

/// Parses `250ms`, `60s`, `5m`, `1h30m`; must be positive.
pub fn duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .parse()
        .map_err(|_| format!("{text:?} is no duration; write for example 250ms, 60s, 5m or 1h30m"))?;
    let duration =
        Duration::try_from(span).map_err(|_| format!("{text:?} is negative; a duration must be positive"))?;
    if duration.is_zero() {
        Err(format!("{text:?} is no time at all; a duration must be positive"))
    } else {
        Ok(duration)
    }
}
