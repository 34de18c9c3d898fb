//! The `fedgate-sandbox` executable: reads arguments and calls the library.

use clap::Parser;
use fedgate_sandbox::SandboxCommand;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match SandboxCommand::parse().run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fedgate-sandbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}
