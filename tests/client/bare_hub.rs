//! A hub that answers and lacks everything, so that doctor exits with 1 unless another plane is absent.

use crate::tls;
use axum::{Json, Router, http::StatusCode, routing::get, serve::Listener};
use k8s_openapi::ByteString;
use serde_json::json;

/// Its kubeconfig; doctor refuses one without TLS.
pub(crate) async fn bare_hub() -> String {
    let (listener, certificate) = tls::listen().await;
    let server = format!("https://{}", listener.local_addr().unwrap());
    let missing = || async {
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": "no"});
        (StatusCode::NOT_FOUND, Json(status))
    };
    let version = || async { Json(json!({"gitVersion": "v1.36.3"})) };
    let router = Router::new().route("/version", get(version)).fallback(missing);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let authority = ByteString(certificate.into_bytes());
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}]})
    .to_string()
}
