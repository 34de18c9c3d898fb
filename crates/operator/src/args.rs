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
    match fedgate_terminal::time::duration(text)? {
        Duration::ZERO => Err("a duration must be more than 0".to_owned()),
        time => Ok(time),
    }
}
