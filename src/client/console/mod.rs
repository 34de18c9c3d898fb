//! `fedgate console`: the console of the leader at a port of this machine (contract: operations.md §4 rule 3). This process
//! adds the token, so that the browser never has it.

mod forwarder;
mod listener;

use super::replicas::Replicas;
use crate::{commands::ConsoleArgs, console::session::NoRandom};
use fedgate_terminal::{
    error::{Error, Kind},
    write::{say, write_next},
};
use forwarder::Forwarder;
use listener::Sessions;
use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::Arc,
};
use tokio::{net::TcpListener, process::Command};

/// The program that opens an address in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Runs the command; it ends by Ctrl-C alone.
pub(super) async fn run(args: &ConsoleArgs) -> Result<(), Error> {
    let forwarder = Arc::new(Forwarder::new(Replicas::open(&args.way, false).await?));
    // A way in that does not work ends the command, and no browser shows it.
    forwarder.find().await?;
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let unbound = |error: std::io::Error| {
        Error::new(Kind::Failed, format!("cannot listen on {wanted}"))
            .because(error.to_string())
            .next("--port of a free port, or none for any")
    };
    let socket = TcpListener::bind(wanted).await.map_err(unbound)?;
    let address = socket.local_addr().map_err(unbound)?;
    let (listener, code) = Sessions::new(address, forwarder).map_err(|error| no_random(&error))?;
    let url = format!("http://{address}/console/open?code={code}");
    write_next(&format!("{url}\n"))?;
    say("this address opens the console once; Ctrl-C ends it");
    if !args.no_open {
        open(&url);
    }
    let served = axum::serve(socket, listener.router()).await;
    served.map_err(|error| {
        Error::new(Kind::Failed, format!("{address} is not served")).because(error.to_string())
    })
}

fn no_random(error: &NoRandom) -> Error {
    Error::new(Kind::Failed, "cannot make a code for the browser").because(error.to_string())
}

/// Opens an address in the browser, which goes on without this process.
fn open(url: &str) {
    let started = Command::new(OPENER)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        say(&format!(
            "{OPENER} does not start ({error}): open the address yourself"
        ));
    }
}
