//! The commands.

mod diff;
mod instances;
mod status;
mod version;
mod workloads;

use crate::{
    args::{Cli, Command},
    error::Error,
    output::Output,
    plane::Plane,
};

/// Runs a command.
pub(crate) async fn run(cli: Cli) -> Result<(), Error> {
    let Cli { global, command } = cli;
    let choice = global.choice();
    let output = Output {
        format: global.output,
        headers: !global.no_headers,
        quiet: global.quiet,
        color: global.color,
    };
    let plane = Plane::open(&choice).await?;
    match command {
        Command::Workloads(args) => workloads::run(&plane, &output, &args).await,
        Command::Instances(args) => instances::run(&plane, &output, &args).await,
        Command::Status(args) => status::run(&plane, &output, &args.name).await,
        Command::Diff(args) => diff::run(&plane, &output, &args).await,
        Command::Version => version::run(&plane, &output).await,
    }
}
