//! Milo's refusals that the stand-in gives itself, in the form of a kube-apiserver's.

use crate::front::{refusal::failure, serve::Answer};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// The namespace does not exist.
pub(super) fn no_namespace(name: &str) -> Answer {
    let message = format!("namespaces {name:?} not found");
    let details = json!({"name": name, "kind": "namespaces"});
    failure(StatusCode::NOT_FOUND, "NotFound", &message, &details)
}

/// A kube-apiserver's answer while a kind's watch cache is filled.
pub(super) fn initializing() -> Answer {
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
pub(super) fn suspended(project: &str) -> Answer {
    let message = format!("project {project:?} is suspended");
    let details = json!({"causes": [{"reason": "ProjectSuspended", "message": message}]});
    let message = format!("forbidden: {message}");
    failure(StatusCode::FORBIDDEN, "Forbidden", &message, &details)
}
