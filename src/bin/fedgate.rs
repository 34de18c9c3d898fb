//! The `fedgate` executable.

use clap::Parser;
use fedgate::sandbox::SandboxCommand;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "fedgate", version)]
enum Command {
    /// Local planes for trying things out and for tests.
    #[command(subcommand)]
    Sandbox(SandboxCommand),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Command::parse() {
        Command::Sandbox(command) => Ok(command.run().await?),
    }
}
