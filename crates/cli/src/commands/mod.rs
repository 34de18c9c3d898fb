//! The commands.

mod deploy;
mod describe;
mod destroy;
mod diff;
mod instances;
mod rollout;
mod status;
mod trace;
mod watching;
mod workloads;

use crate::{
    activation::{self, gate},
    args::{Cli, Command, DescribeCommand, InstancesArgs, RolloutCommand, WorkloadsArgs},
    change::check_minimum,
    completion,
    error::{Error, Kind},
    interrupt::Writes,
    output::{Output, escaped, write},
    plane::Plane,
    quota,
};
use serde_json::json;

/// Runs a command.
pub(crate) async fn run(cli: Cli, line: String, writes: Writes) -> Result<(), Error> {
    let is_diff = matches!(cli.command, Command::Diff(_));
    execute(cli, line, writes)
        .await
        .map_err(|error| match error.kind {
            // 1 is a difference.
            Kind::Failed | Kind::NotServed if is_diff => Error {
                kind: Kind::DiffFailed,
                ..error
            },
            _ => error,
        })
}

/// Finds wrong use that clap does not see. Needs no control plane.
fn check(command: &Command) -> Result<(), Error> {
    match command {
        Command::Deploy(args) => deploy::check(args),
        Command::Scale(args) => check_minimum(args.min),
        Command::Restart(args) => deploy::check_restart(args),
        Command::Rollout(args) => match &args.command {
            None => rollout::named(&args.status).map(drop),
            Some(RolloutCommand::Status(args)) => rollout::named(args).map(drop),
            Some(RolloutCommand::Restart(args)) => deploy::check_restart(args),
            Some(
                RolloutCommand::History(_)
                | RolloutCommand::Undo(_)
                | RolloutCommand::Pause(_)
                | RolloutCommand::Resume(_),
            ) => Ok(()),
        },
        Command::Diff(args) => diff::check(args),
        _ => Ok(()),
    }
}

async fn execute(cli: Cli, line: String, writes: Writes) -> Result<(), Error> {
    let Cli { global, command } = cli;
    check(&command)?;
    let yes = global.yes;
    let output = Output {
        format: global.output,
        headers: !global.no_headers,
        quiet: global.quiet,
        color: global.color,
        line,
        writes,
    };
    if let Command::Completion { shell } = command {
        return write(completion::script(shell));
    }
    let plane = Plane::open(&global.choice, global.request_timeout, true).await?;
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
        Command::Scale(args) => deploy::scale(&plane, &output, args, yes).await,
        Command::Restart(args) => deploy::restart(&plane, &output, args, yes).await,
        Command::Rollout(args) => match args.command {
            None => rollout::status(&plane, &output, &args.status).await,
            Some(RolloutCommand::Status(args)) => rollout::status(&plane, &output, &args).await,
            Some(RolloutCommand::History(args)) => rollout::history(&plane, &output, &args).await,
            Some(RolloutCommand::Undo(args)) => deploy::undo(&plane, &output, args, yes).await,
            Some(RolloutCommand::Restart(args)) => deploy::restart(&plane, &output, args, yes).await,
            Some(RolloutCommand::Pause(args)) => deploy::pause(&plane, &output, args, yes).await,
            Some(RolloutCommand::Resume(args)) => deploy::resume(&plane, &output, args, yes).await,
        },
        Command::Diff(args) => diff::run(&plane, &output, &args).await,
        Command::Trace(args) => trace::run(&plane, &output, &args).await,
        Command::Quota(args) => quota::run(&plane, &output, &args).await,
        Command::Activation(args) => activation::run(&plane, &output, &args, yes).await,
        Command::Completion { .. } => Ok(()),
        Command::Version => version(&plane, &output).await,
    }
}

/// Prints both versions.
async fn version(plane: &Plane, output: &Output) -> Result<(), Error> {
    let client = env!("CARGO_PKG_VERSION");
    let server = plane.version().await?;
    let lines = [format!("client  {client}"), format!("server  {server}")];
    let object = json!({"apiVersion": "cli.fedgate.dev/v1", "kind": "Version", "metadata": {"name": "version"},
        "client": client, "server": server});
    output.result(&escaped(&lines), &object)
}
