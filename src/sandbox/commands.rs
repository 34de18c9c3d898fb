//! `fedgate sandbox …`.

use super::{SandboxError, hold::hold};
use clap::Subcommand;
use std::{ffi::OsString, path::PathBuf, process::ExitCode};

/// The commands of `fedgate sandbox`.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Hold one process: run it until it ends or standard input does.
    #[command(hide = true)]
    Hold {
        /// File to share a lock on while the process lives.
        #[arg(long, value_name = "FILE")]
        lock: PathBuf,
        /// The command with its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

impl SandboxCommand {
    /// Does what the command says; answers the exit code.
    pub async fn run(self) -> Result<ExitCode, SandboxError> {
        match self {
            Self::Hold { lock, command } => {
                let code = hold(&lock, &command)?;
                Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
            }
        }
    }
}
