//! The administrative address: `/livez`, `/readyz`, `/metrics`, `/debug/planes`, the operations API and the console. No
//! response contains a credential or an object. The first two may have an address of their own.
//!
//! All but the first two and the console's page contain tenants' names, so they require a token if other machines can reach the address.

#![forbid(unsafe_code)]

mod access;
pub mod api;
mod attempts;
pub mod console;
mod deadline;
mod origin;
mod reviews;
mod routes;
mod server;
mod sign_in;
mod tls;
mod token;

pub use tls::TlsError;
pub use token::{Token, TokenError};

use access::Access;
use fedgate_engine::{metrics::Metrics, plane::client::Connection};
use fedgate_operations::OperationsSource;
use reviews::Reviews;
use std::{net::SocketAddr, path::PathBuf, sync::Arc};
use tls::Tls;
use tokio::{net::TcpListener, sync::watch};

/// Source of the responses, implemented for the role of the process.
pub trait AdminSource: Send + Sync + 'static {
    /// An error with the reason if the process does not work.
    fn live(&self) -> Result<(), String> {
        Ok(())
    }
    /// An error with the missing list if the required first lists are incomplete.
    fn ready(&self) -> Result<(), String>;
    /// The metrics as text, or the reason for their absence.
    fn metrics(&self) -> Result<String, String>;
    /// The answers to the operations API.
    fn operations(&self) -> Arc<dyn OperationsSource>;
    /// The state of every plane.
    fn planes(&self) -> serde_json::Value;
}

/// Settings of the address.
pub struct Settings {
    /// The address.
    pub address: SocketAddr,
    /// The token that admits a request.
    pub token: Option<Token>,
    /// The hub that reviews other tokens, if it does.
    pub reviewer: Option<Connection>,
    /// Folder with certificate and key.
    pub tls: Option<PathBuf>,
    /// A further address with `/livez` and `/readyz` alone, without TLS.
    pub probes: Option<SocketAddr>,
}

/// Reason why the address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be bound.
    #[error("{flag} {address}: {source}; choose a free address of this machine")]
    Address {
        /// The flag.
        flag: &'static str,
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The token cannot be read, or is too short.
    #[error("--admin-token-file {0}; put a token of at least {least} characters there, for example of openssl rand -hex 32", least = token::LEAST)]
    Token(#[from] TokenError),
    /// Certificate or key cannot be used.
    #[error("--admin-tls-directory {0}; put a PEM chain into tls.crt and its key into tls.key")]
    Tls(#[from] TlsError),
}

/// The bound addresses.
pub struct Bound {
    listener: TcpListener,
    tls: Option<Tls>,
    access: Access,
    probes: Option<TcpListener>,
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), AdminError> {
    let failed = |source| AdminError::Address {
        flag,
        address,
        source,
    };
    let bound = match TcpListener::bind(address).await {
        Err(error) if may_lack_ipv6(address, &error) => TcpListener::bind(("0.0.0.0", address.port())).await,
        bound => bound,
    };
    let listener = bound.map_err(failed)?;
    // The port may have been 0.
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// True if `[::]`, which stands for all addresses, may have failed because this machine has no IPv6.
fn may_lack_ipv6(address: SocketAddr, error: &std::io::Error) -> bool {
    address.ip() == std::net::Ipv6Addr::UNSPECIFIED && error.kind() != std::io::ErrorKind::AddrInUse
}

/// Binds the addresses; if there are a token, a certificate and a key, their files must be readable. Serving starts with
/// [`Bound::serve`].
pub async fn bind(settings: Settings) -> Result<Bound, AdminError> {
    if let Some(token) = &settings.token {
        token.read().await?;
    }
    let tls = settings.tls.as_deref().map(Tls::follow).transpose()?;
    let (listener, address) = listen("--admin-address", settings.address).await?;
    let probes = match settings.probes {
        Some(address) => Some(listen("--probe-address", address).await?.0),
        None => None,
    };
    let reviews = settings.reviewer.map(Reviews::by);
    Ok(Bound {
        listener,
        tls,
        access: Access::new(address, settings.token, reviews),
        probes,
    })
}

impl Bound {
    /// Serves until `shutdown` holds true.
    pub async fn serve(
        self,
        subject: Arc<dyn AdminSource>,
        metrics: Arc<Metrics>,
        shutdown: watch::Receiver<bool>,
    ) {
        // A task of its own: requests to the other address delay no probe.
        let probes = self.probes.map(|listener| {
            let served = server::serve(listener, routes::probes(&subject), None, shutdown.clone());
            tokio::spawn(served)
        });
        let router = routes::router(&subject, &metrics, self.access);
        server::serve(self.listener, router, self.tls, shutdown).await;
        if let Some(probes) = probes {
            let _ = probes.await;
        }
    }
}

#[cfg(test)]
mod tests;
