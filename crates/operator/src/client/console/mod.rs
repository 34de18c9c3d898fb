//! `fedgate console`: the console of the leader at a port of this machine (contract: operations.md §4 rule 3). This process
//! adds the token, so that the browser never has it.

mod forwarder;
mod listener;
mod opening;

use super::replicas::Replicas;
use crate::client::args::ConsoleArgs;
use fedgate_admin::console::session::{self, NoRandom};
use fedgate_terminal::{
    error::{Error, Kind},
    write::{say, write_next},
};
use forwarder::Forwarder;
use listener::Sessions;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::net::TcpListener;

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
    let code = session::random_text().map_err(|error| no_random(&error))?;
    // The page shows the code itself, because no browser sends the part of an address after #.
    let url = format!("http://{address}/console#code={code}");
    let page = if args.no_open { None } else { opening::page(&url) };
    let path = page.as_ref().map(|page| page.path().to_owned());
    let listener = Sessions::new(address, forwarder, &code, page).map_err(|error| no_random(&error))?;
    write_next(&format!("{url}\n"))?;
    say("this address opens the console once; Ctrl-C ends it");
    if let Some(path) = path {
        opening::open(&path);
    }
    let served = axum::serve(socket, listener.router()).await;
    served.map_err(|error| {
        Error::new(Kind::Failed, format!("{address} is not served")).because(error.to_string())
    })
}

fn no_random(error: &NoRandom) -> Error {
    Error::new(Kind::Failed, "cannot make a code for the browser").because(error.to_string())
}
