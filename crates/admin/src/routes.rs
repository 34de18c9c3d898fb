//! The paths of the administrative address: `/livez`, `/readyz`, `/metrics` and `/debug/planes` are answered here, the operations
//! API by `api`, the console by `console` and `sign_in`. Each group of paths has the checks that its requests must pass.

use super::{
    AdminSource,
    access::{Access, Peer, under_own_name},
    api::{self, Operations, Route},
    sign_in,
};
use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use fedgate_engine::metrics::Metrics;
use futures::StreamExt;
use std::{sync::Arc, time::Instant};

type Shared = State<Arc<dyn AdminSource>>;

fn verdict(result: Result<(), String>) -> (StatusCode, String) {
    match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
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
    let (began, route) = (Instant::now(), Route::matched(request.extensions().get()));
    let response = next.run(request).await;
    operations.count(route, response.status(), began);
    response
}

/// The routes of the probes. They need no token.
pub(super) fn probes(subject: &Arc<dyn AdminSource>) -> Router {
    Router::new()
        .route("/livez", get(|State(s): Shared| async move { verdict(s.live()) }))
        .route(
            "/readyz",
            get(|State(s): Shared| async move { verdict(s.ready()) }),
        )
        .with_state(subject.clone())
}

/// The routes. Only `/livez`, `/readyz` and the console's page need no token.
pub(super) fn router(subject: &Arc<dyn AdminSource>, metrics: &Arc<Metrics>, access: Access) -> Router {
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
