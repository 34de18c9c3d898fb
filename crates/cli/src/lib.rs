//! `kubectl compute`: the command line of tenants (contract: cli.md). It reads and writes the project's control plane with
//! plain Kubernetes requests and needs no server part of fedgate.

#![forbid(unsafe_code)]

mod activation;
mod args;
mod change;
mod commands;
mod completion;
mod diff;
mod effects;
mod history;
mod interrupt;
mod manifest;
mod output;
mod plane;
mod prompt;
mod quota;
mod retry;
mod rollout;
mod time;
mod trace;
mod typing;
mod view;

use fedgate_terminal::error;

use args::Cli;
use clap::{CommandFactory, Parser, error::ErrorKind};
use error::{Error, Kind};
use interrupt::Writes;
use output::{complain, write};
use std::{ffi::OsString, process::ExitCode};

/// The commands with their flags and help, for the reference.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line; returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    if let Some(typed) = typing::to_complete(&words) {
        return complete(typed);
    }
    let json = typing::wants_json(&words);
    match run(&words, json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.shown {
                complain(&if json {
                    error.json().to_string()
                } else {
                    error.to_string()
                });
            }
            error.exit()
        }
    }
}

/// Answers a shell that completes words. Nothing that fails may disturb the line that is being typed.
fn complete(typed: &[String]) -> ExitCode {
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let answer = runtime.block_on(completion::answer(typed));
        // Without a reader nobody waits for the answer.
        let _ = write(&answer);
        runtime.shutdown_background();
    }
    ExitCode::SUCCESS
}

fn run(words: &[String], json: bool) -> Result<(), Error> {
    let cli = match Cli::try_parse_from(typing::normalized(words)) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return write(&error.to_string());
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let missing = Error::usage("a command is required").next("kubectl compute --help");
            if json {
                return Err(missing);
            }
            complain(error.to_string().trim_end());
            return Err(missing.shown());
        }
        Err(error) => {
            let usage = typing::usage(&error);
            return Err(match typing::corrected(&typing::built(), words, &error) {
                Some(line) => usage.because(format!("Did you mean: {line}")).next(line),
                None => usage,
            });
        }
    };
    let writes = Writes::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::new(Kind::Failed, "cannot start").because(error.to_string()))?;
    let result = runtime.block_on(async {
        tokio::select! {
            // A wait has its own end for Ctrl-C.
            biased;
            result = commands::run(cli, typing::line(words), writes.clone()) => result,
            () = writes.interrupted() => Err(Error::new(Kind::Interrupted, "interrupted").shown()),
        }
    });
    // A thread may still wait for an answer on stdin.
    runtime.shutdown_background();
    result
}
