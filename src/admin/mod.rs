//! The administrative address: `/livez`, `/readyz`, `/metrics`, `/debug/planes`. No response contains a credential or
//! an object.
//!
//! `/metrics` and `/debug/planes` contain tenants' names, so they require a token if other machines can reach the
//! address.

mod token;

pub use token::{Token, TokenError};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use fedgate_operations::OperationsSource;
use std::{net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

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

/// Reason why the address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be bound.
    #[error("--admin-address {address}: {source}; choose a free address of this machine")]
    Address {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The token cannot be read, or is too short.
    #[error("--admin-token-file {0}; put a token of at least {least} characters there, for example of openssl rand -hex 32", least = token::LEAST)]
    Token(#[from] TokenError),
}

type Shared = State<Arc<dyn AdminSource>>;

fn verdict(result: Result<(), String>) -> (StatusCode, String) {
    match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// Admits requests that present the token. The file is read at each request, so that a new token is valid at once.
async fn guard(State(token): State<Option<Token>>, request: Request, next: Next) -> Response {
    let Some(token) = token else {
        return next.run(request).await;
    };
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| value.to_str().ok()).and_then(bearer);
    match (token.read().await, shown) {
        (Ok(wanted), Some(shown)) if wanted.is(shown) => next.run(request).await,
        (Ok(_), _) => (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, "Bearer")],
            "send the token of --admin-token-file: Authorization: Bearer <token>\n",
        )
            .into_response(),
        (Err(error), _) => {
            tracing::warn!(%error, "/metrics and /debug/planes reject every request");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the token cannot be read, see the gateway's log\n",
            )
                .into_response()
        }
    }
}

/// The token in a header; the scheme is case-insensitive.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The routes. With a token, only `/livez` and `/readyz` are open to every client.
pub fn router(subject: Arc<dyn AdminSource>, token: Option<Token>) -> Router {
    let open = Router::new()
        .route("/livez", get(|State(s): Shared| async move { verdict(s.live()) }))
        .route(
            "/readyz",
            get(|State(s): Shared| async move { verdict(s.ready()) }),
        );
    let guarded = Router::new()
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
        .route_layer(middleware::from_fn_with_state(token, guard));
    open.merge(guarded).with_state(subject)
}

/// Binds the address; if there is a token, the file must be readable. Serving starts with [`serve`].
pub async fn bind(address: SocketAddr, token: Option<&Token>) -> Result<TcpListener, AdminError> {
    if let Some(token) = token {
        token.read().await?;
    }
    TcpListener::bind(address)
        .await
        .map_err(|source| AdminError::Address { address, source })
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    subject: Arc<dyn AdminSource>,
    token: Option<Token>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(subject, token))
        .with_graceful_shutdown(shutdown)
        .await
}

#[cfg(test)]
mod tests;
