//! The `fedgate-sandbox` executable: reads arguments and calls the libraries.

use clap::Parser;
use fedgate::{commands::DeveloperCommand, config};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        eprintln!("fedgate-sandbox: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run() -> anyhow::Result<ExitCode> {
    match DeveloperCommand::parse() {
        DeveloperCommand::Sandbox(command) => command.run().await,
        DeveloperCommand::Explain(args) => {
            print!("{}", args.run(&config::default_settings()?)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
