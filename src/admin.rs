//! The administrative address: `/livez`, `/readyz`, `/metrics`, `/debug/planes`. It shows no credential and no object.

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
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
#[error("--admin-address {address}: {source}; choose a free address of this machine")]
pub struct AdminError {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// What the system said.
    pub source: std::io::Error,
}

type Shared = State<Arc<dyn Subject>>;

fn verdict(result: Result<(), String>) -> (StatusCode, String) {
    match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

/// The routes.
pub fn router(subject: Arc<dyn Subject>) -> Router {
    Router::new()
        .route("/livez", get(|State(s): Shared| async move { verdict(s.live()) }))
        .route(
            "/readyz",
            get(|State(s): Shared| async move { verdict(s.ready()) }),
        )
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
        .with_state(subject)
}

/// Binds the address; serving begins with [`serve`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, AdminError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| AdminError { address, source })
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    subject: Arc<dyn Subject>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(subject))
        .with_graceful_shutdown(shutdown)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    struct Waiting;

    impl Subject for Waiting {
        fn ready(&self) -> Result<(), String> {
            Err("the hub's first lists are not complete".to_owned())
        }
        fn metrics(&self) -> Result<String, String> {
            Ok("up 1\n".to_owned())
        }
        fn planes(&self) -> serde_json::Value {
            serde_json::json!({"planes": []})
        }
    }

    async fn get(path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(Arc::new(Waiting)).oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(text.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_path_answers_its_question() {
        assert_eq!(get("/livez").await, (200, "ok\n".to_owned()));
        assert_eq!(
            get("/readyz").await,
            (503, "the hub's first lists are not complete\n".to_owned())
        );
        assert_eq!(get("/metrics").await, (200, "up 1\n".to_owned()));
        assert_eq!(get("/debug/planes").await, (200, "{\"planes\":[]}".to_owned()));
        assert_eq!(get("/other").await.0, 404);
    }
}
