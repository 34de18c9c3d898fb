//! Tests of the API over a fake role.

mod fake;
mod limits;
mod questions;
mod streams;

use super::*;
use axum::body::Body;
use fake::Fake;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// The API over this role.
fn api(fake: &Arc<Fake>) -> Arc<Operations> {
    let fake = fake.clone();
    let provider: Provider = Arc::new(move || fake.clone());
    Operations::new(provider, &Metrics::new().unwrap())
}

/// Sends a request; the status and the answer.
async fn send(api: &Arc<Operations>, method: &str, uri: &str) -> (u16, Response) {
    let request = Request::builder().method(method).uri(uri);
    let request = request.body(Body::empty()).unwrap();
    let response = api.router().oneshot(request).await.unwrap();
    (response.status().as_u16(), response)
}

/// The status and the document of a GET.
async fn get(api: &Arc<Operations>, path: &str) -> (u16, Value) {
    let (status, response) = send(api, "GET", &format!("/api/v1/{path}")).await;
    assert_eq!(response.headers()["content-type"], "application/json", "{path}");
    assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert!(text.len() <= answer::ANSWER_LIMIT, "{path}: {} bytes", text.len());
    (status, serde_json::from_slice(&text).unwrap())
}
