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
mod error;
mod history;
mod manifest;
mod output;
mod plane;
mod prompt;
mod quota;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod reference;
mod rollout;
mod time;
mod trace;
mod typing;
mod view;

use args::Cli;
use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ErrorKind},
};
use error::{Error, Kind};
use std::{ffi::OsString, process::ExitCode};

/// Runs the command line; returns the exit code.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    if let Some(typed) = typing::to_complete(&words) {
        return complete(typed);
    }
    let words = typing::without_list(words);
    let json = wants_json(&words);
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.shown {
                if json {
                    eprintln!("{}", error.json());
                } else {
                    eprintln!("{error}");
                }
            }
            error.exit()
        }
    }
}

/// Answers a shell that completes words. Nothing that fails may disturb the line that is being typed.
fn complete(typed: &[String]) -> ExitCode {
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let answer = runtime.block_on(completion::answer(typed));
        print!("{answer}");
        runtime.shutdown_background();
    }
    ExitCode::SUCCESS
}

fn run(words: &[String]) -> Result<(), Error> {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print!("{error}");
            return Ok(());
        }
        Err(error) => {
            let usage = usage(&error);
            return Err(match typing::corrected(&Cli::command(), words, &error) {
                Some(line) => usage.because(format!("Did you mean: {line}")).next(line),
                None => usage,
            });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Error::new(Kind::Failed, "cannot start").because(error.to_string()))?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = commands::run(cli, typing::line(words)) => result,
            _ = tokio::signal::ctrl_c() => Err(Error::new(Kind::Interrupted, "interrupted")),
        }
    });
    // A thread may still wait for an answer on stdin.
    runtime.shutdown_background();
    result
}

/// True if errors are printed as JSON; known before the words are parsed, because parsing may fail.
fn wants_json(words: &[String]) -> bool {
    let pairs = words
        .windows(2)
        .any(|pair| matches!(&*pair[0], "-o" | "--output") && pair[1] == "json");
    pairs
        || words
            .iter()
            .any(|word| matches!(&**word, "-ojson" | "-o=json" | "--output=json"))
}

/// A fault of the command line, without clap's usage text.
fn usage(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what = lines.next().unwrap_or_default();
    let mut what = what.strip_prefix("error: ").unwrap_or(what).to_owned();
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(missing) = error.get(ContextKind::InvalidArg)
    {
        what = format!("{missing} is required");
    }
    let tip = lines.find_map(|line| line.strip_prefix("tip: "));
    let mut error = Error::usage(what);
    error.cause = tip.map(str::to_owned);
    error.next("kubectl compute --help")
}
