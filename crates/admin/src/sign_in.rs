//! The console on the administrative address (contract: operations.md §4): its page, and the session that a browser gets for
//! a token.

use super::access::{Access, under_own_name};
use crate::api::Refusal;
use crate::console::{self, session};
use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
    routing::{any, post},
};
use fedgate_operations::ErrorCode;
use std::sync::Arc;

/// The routes, each with the headers of the console. They need no token: they hold nothing of a tenant.
pub(super) fn router(access: &Arc<Access>) -> Router {
    let signs = Router::new()
        .route(session::PATH, post(sign_in))
        .with_state(access.clone());
    console::router()
        .merge(signs)
        .route("/console/{*path}", any(nothing))
        .layer(middleware::from_fn_with_state(access.clone(), under_own_name))
        .layer(middleware::map_response(async |response| {
            console::protect(response)
        }))
}

/// Gives a session for the token of the file.
async fn sign_in(State(access): State<Arc<Access>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match access.sign_in(&parts).await {
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Ok(Some(begun)) => session::given(&begun),
        Err(refusal) => refusal.into_response(),
    }
}

async fn nothing() -> Response {
    Refusal::new(
        ErrorCode::NotFound,
        "the console has no such path",
        "open /console",
    )
    .into_response()
}
