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
mod server;
mod sign_in;
mod tls;
mod token;

pub use tls::TlsError;
pub use token::{Token, TokenError};

use access::{Access, Peer};
use api::Operations;
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use fedgate_engine::{metrics::Metrics, plane::client::Connection};
use fedgate_operations::OperationsSource;
use futures::StreamExt;
use reviews::Reviews;
use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Instant};
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

type Shared = State<Arc<dyn AdminSource>>;

fn verdict(result: Result<(), String>) -> (StatusCode, String) {
    match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// A request that reached the address under a foreign name is refused, whatever it asks.
async fn under_own_name(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match access.check_origin(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Admits requests that show a valid token. Its file is read at each request, so that a new token is valid at once. An answer
/// that is a stream ends when its request would not be admitted.
async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let user = match access.check(&parts).await {
        Ok(user) => user,
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(peer) = parts.extensions.get::<Peer>() {
        peer.admit();
    }
    let asked = parts.clone();
    if let Some(user) = user {
        parts.extensions.insert(user);
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != api::STREAM) {
        return response;
    }
    let refused = Box::pin(async move { access.refuses(&asked).await });
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(refused)))
}

/// Counts the answers of the operations API, refusals included.
async fn count(State(operations): State<Arc<Operations>>, request: Request, next: Next) -> Response {
    let (began, path) = (Instant::now(), request.uri().path().to_owned());
    let response = next.run(request).await;
    operations.count(&path, response.status(), began);
    response
}

/// The routes of the probes. They need no token.
fn probes(subject: &Arc<dyn AdminSource>) -> Router {
    Router::new()
        .route("/livez", get(|State(s): Shared| async move { verdict(s.live()) }))
        .route(
            "/readyz",
            get(|State(s): Shared| async move { verdict(s.ready()) }),
        )
        .with_state(subject.clone())
}

/// The routes. Only `/livez`, `/readyz` and the console's page need no token.
fn router(subject: &Arc<dyn AdminSource>, metrics: &Arc<Metrics>, access: Access) -> Router {
    let access = Arc::new(access);
    let console = sign_in::router(&access);
    let texts = Router::new()
        .route(
            "/debug/planes",
            get(|State(s): Shared| async move { Json(s.planes()) }),
        )
        .route(
            "/metrics",
            get(|State(s): Shared| async move {
                match s.metrics() {
                    Ok(text) => ([("content-type", "text/plain; version=0.0.4")], text).into_response(),
                    Err(reason) => (StatusCode::INTERNAL_SERVER_ERROR, reason).into_response(),
                }
            }),
        )
        .route_layer(middleware::from_fn_with_state(access.clone(), guard))
        .with_state(subject.clone());
    let role = subject.clone();
    let operations = Operations::new(Arc::new(move || role.operations()), metrics);
    let api = operations
        .router()
        .route_layer(middleware::from_fn_with_state(access.clone(), guard))
        .route_layer(middleware::from_fn_with_state(operations, count));
    probes(subject)
        .merge(texts)
        .merge(api)
        .layer(middleware::from_fn_with_state(access, under_own_name))
        .merge(console)
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
            let served = server::serve(listener, probes(&subject), None, shutdown.clone());
            tokio::spawn(served)
        });
        let router = router(&subject, &metrics, self.access);
        server::serve(self.listener, router, self.tls, shutdown).await;
        if let Some(probes) = probes {
            let _ = probes.await;
        }
    }
}

#[cfg(test)]
mod tests;
