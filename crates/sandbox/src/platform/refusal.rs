//! Answers that the stand-in gives itself, in the form of a kube-apiserver's.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

/// A `Status` of kind Failure.
fn failure(code: StatusCode, reason: &str, message: &str, details: &Value) -> Response<Full<Bytes>> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": message, "details": details,
    });
    let mut response = Response::new(Full::new(Bytes::from(status.to_string())));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// The caller is not known.
pub(super) fn unauthorized() -> Response<Full<Bytes>> {
    failure(
        StatusCode::UNAUTHORIZED,
        "Unauthorized",
        "Unauthorized",
        &json!({}),
    )
}

/// The API server behind the path does not answer.
pub(super) fn unavailable(cause: &str) -> Response<Full<Bytes>> {
    let message = format!("the sandbox's stand-in reaches no API server for this path: {cause}");
    failure(
        StatusCode::SERVICE_UNAVAILABLE,
        "ServiceUnavailable",
        &message,
        &json!({}),
    )
}

/// The namespace does not exist.
pub(super) fn no_namespace(name: &str) -> Response<Full<Bytes>> {
    let message = format!("namespaces {name:?} not found");
    let details = json!({"name": name, "kind": "namespaces"});
    failure(StatusCode::NOT_FOUND, "NotFound", &message, &details)
}

/// A kube-apiserver's answer while a kind's watch cache is filled.
pub(super) fn initializing() -> Response<Full<Bytes>> {
    let mut response = failure(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyRequests",
        "storage is (re)initializing",
        &json!({"retryAfterSeconds": 1}),
    );
    let second = HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, second);
    response
}

/// A write in a suspended project.
pub(super) fn suspended(project: &str) -> Response<Full<Bytes>> {
    let message = format!("project {project:?} is suspended");
    let details = json!({"causes": [{"reason": "ProjectSuspended", "message": message}]});
    let message = format!("forbidden: {message}");
    failure(StatusCode::FORBIDDEN, "Forbidden", &message, &details)
}
