//! The commands.

mod activation;
mod changes;
mod deploy;
mod describe;
mod destroy;
mod diff;
mod instances;
mod quota;
mod rollout;
mod status;
mod trace;
mod version;
mod workloads;

use crate::{
    activation::gate,
    args::{Cli, Command, DescribeCommand, InstancesArgs, RolloutCommand, WorkloadsArgs},
    completion,
    error::Error,
    output::{Output, write},
    plane::Plane,
};

/// Runs a command.
pub(crate) async fn run(cli: Cli, line: String) -> Result<(), Error> {
    let Cli { global, command } = cli;
    let choice = global.choice();
    let yes = global.yes;
    let output = Output {
        format: global.output,
        headers: !global.no_headers,
        quiet: global.quiet,
        color: global.color,
        line,
    };
    if let Command::Completion { shell } = command {
        return write(completion::script(shell));
    }
    let plane = Plane::open(&choice).await?;
    if !matches!(command, Command::Activation(_) | Command::Version) {
        gate(&plane, &output).await?;
    }
    match command {
        Command::Workloads(WorkloadsArgs {
            command: Some(DescribeCommand::Describe { name }),
            ..
        }) => describe::workload(&plane, &output, &name).await,
        Command::Instances(InstancesArgs {
            command: Some(DescribeCommand::Describe { name }),
            ..
        }) => describe::instance(&plane, &output, &name).await,
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
        Command::Quota(args) => quota::run(&plane, &output, &args).await,
        Command::Activation(args) => activation::run(&plane, &output, &args, yes).await,
        Command::Completion { .. } => Ok(()),
        Command::Version => version::run(&plane, &output).await,
    }
}
