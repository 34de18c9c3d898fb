//! The commands that ask a running gateway or cell (contract: operations.md §3): `fedgate status`, `stuck`, `trace`,
//! `journal` and `console`. They read the operations API and write nothing.

mod answer;
pub mod args;
mod console;
mod credential;
mod events;
mod failure;
mod follow;
mod forward;
mod host;
mod journal;
mod output;
mod replicas;
mod status;
mod stuck;
mod trace;

use crate::client::args::{
    ConsoleArgs, JournalArgs, ListFormat, StatusArgs, StuckArgs, TraceArgs, TraceFormat, WayArgs,
};
use fedgate_operations::{Answer, Overview};
use fedgate_terminal::{
    error::{Error, Kind},
    write::complain,
};
use host::Host;
pub(crate) use output::counted;
use replicas::Replicas;
use std::process::ExitCode;

/// Runs `fedgate status`: 0 all well, 7 first lists are read, 9 a plane, a permission or the brake.
pub async fn status(args: &StatusArgs) -> ExitCode {
    ended(status::run(args), args.output == ListFormat::Json).await
}

/// Runs `fedgate stuck`: 0 nothing is stuck, 9 something is.
pub async fn stuck(args: &StuckArgs) -> ExitCode {
    ended(stuck::run(args), args.output == ListFormat::Json).await
}

/// Runs `fedgate trace`: 0 whole, 7 moving, 9 broken, 3 not found.
pub async fn trace(args: &TraceArgs) -> ExitCode {
    ended(trace::run(args), args.output == TraceFormat::Json).await
}

/// Runs `fedgate journal`.
pub async fn journal(args: &JournalArgs) -> ExitCode {
    ended(journal::run(args), args.output == ListFormat::Json).await
}

/// The overview of each running replica of the gateway, by its address; empty if none runs.
pub async fn overviews(way: &WayArgs) -> Result<Vec<(String, Result<Answer<Overview>, Error>)>, Error> {
    let replicas = Replicas::open(way, false).await?;
    let answers = replicas.ask_each(status::PATH).await?;
    let document = |answer: Result<answer::Answer, Error>| answer?.document();
    let named = answers
        .into_iter()
        .map(|(address, answer)| (address.to_string(), document(answer)));
    Ok(named.collect())
}

/// Whether a Pod of the gateway runs with `--admin-auth=hub`; false where the Pods cannot be read.
pub async fn reviews_tokens(way: &WayArgs) -> bool {
    let read = async { Host::open(way, false).await?.reviews_tokens().await };
    read.await.unwrap_or(false)
}

/// Runs `fedgate console` until Ctrl-C.
pub async fn console(args: &ConsoleArgs) -> ExitCode {
    ended(console::run(args), false).await
}

/// Waits for the command or Ctrl-C, prints its error, and returns its exit code.
async fn ended(command: impl Future<Output = Result<(), Error>>, json: bool) -> ExitCode {
    let result = tokio::select! {
        result = command => result,
        Ok(()) = tokio::signal::ctrl_c() => Err(Error::new(Kind::Interrupted, "interrupted").shown()),
    };
    match result {
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

#[cfg(test)]
mod tests;
