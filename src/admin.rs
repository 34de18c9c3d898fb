//! The administrative address: `/livez`, `/readyz`, `/metrics`, `/debug/planes`. It shows no credential and no object.
//!
//! The latter two tell of tenants, so they ask for a token wherever others than this machine's users can reach them.

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
use std::{net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// What is asked about; the gateway answers.
pub trait Subject: Send + Sync + 'static {
    /// Whether the process works at all; the reason if not.
    fn live(&self) -> Result<(), String> {
        Ok(())
    }
    /// Whether all first lists that count are complete; what is awaited if not.
    fn ready(&self) -> Result<(), String>;
    /// The text of the metrics; the reason if there is none.
    fn metrics(&self) -> Result<String, String>;
    /// The state of every plane.
    fn planes(&self) -> serde_json::Value;
}

/// Why the address cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// It cannot be had.
    #[error("--admin-address {address}: {source}; choose a free address of this machine")]
    Address {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no token.
    #[error("--admin-token-file {0}; put a token of at least {least} characters there, for example of openssl rand -hex 32", least = token::LEAST)]
    Token(#[from] TokenError),
}

type Shared = State<Arc<dyn Subject>>;

fn verdict(result: Result<(), String>) -> (StatusCode, String) {
    match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// Lets through who shows the token. The file is read each time, so that a new token counts at once.
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
            tracing::warn!(%error, "nobody is let through to /metrics and /debug/planes");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the token cannot be read, see the gateway's log\n",
            )
                .into_response()
        }
    }
}

/// The token in a header; the scheme's case does not matter.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The routes. With a token only `/livez` and `/readyz` are for everybody.
pub fn router(subject: Arc<dyn Subject>, token: Option<Token>) -> Router {
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

/// Binds the address, once there is a token if there is to be one; serving begins with [`serve`].
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
    subject: Arc<dyn Subject>,
    token: Option<Token>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(subject, token))
        .with_graceful_shutdown(shutdown)
        .await
}

#[cfg(test)]
mod tests;
