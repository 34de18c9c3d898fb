//! The commands.

mod changes;
mod deploy;
mod destroy;
mod diff;
mod instances;
mod rollout;
mod status;
mod trace;
mod version;
mod workloads;

use crate::{
    args::{Cli, Command, RolloutCommand},
    error::Error,
    output::Output,
    plane::Plane,
};

/// Runs a command.
pub(crate) async fn run(cli: Cli) -> Result<(), Error> {
    let Cli { global, command } = cli;
    let choice = global.choice();
    let yes = global.yes;
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
        Command::Status(args) => status::run(&plane, &output, &args).await,
        Command::Deploy(args) => deploy::run(&plane, &output, *args, yes).await,
        Command::Destroy(args) => destroy::run(&plane, &output, &args, yes).await,
        Command::Scale(args) => changes::scale(&plane, &output, args, yes).await,
        Command::Restart(args) => changes::restart(&plane, &output, args, yes).await,
        Command::Rollout(args) => match args.command {
            None => rollout::status(&plane, &output, &args.status).await,
            Some(RolloutCommand::Status(args)) => rollout::status(&plane, &output, &args).await,
            Some(RolloutCommand::History(args)) => rollout::history(&plane, &output, &args).await,
            Some(RolloutCommand::Undo(args)) => rollout::undo(&plane, &output, args, yes).await,
            Some(RolloutCommand::Restart(args)) => changes::restart(&plane, &output, args, yes).await,
        },
        Command::Diff(args) => diff::run(&plane, &output, &args).await,
        Command::Trace(args) => trace::run(&plane, &output, &choice, &args).await,
        Command::Version => version::run(&plane, &output).await,
    }
}
