//! Answers that a front gives itself, in the form of a kube-apiserver's.

use super::serve::{Answer, boxed};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

/// A `Status` of kind Failure.
pub(crate) fn failure(code: StatusCode, reason: &str, message: &str, details: &Value) -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": message, "details": details,
    });
    answer(code, &status)
}

/// An answer with this `Status`.
pub(crate) fn answer(code: StatusCode, status: &Value) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(status.to_string())));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    boxed(response)
}

/// The caller is not known.
pub(crate) fn unauthorized() -> Answer {
    failure(
        StatusCode::UNAUTHORIZED,
        "Unauthorized",
        "Unauthorized",
        &json!({}),
    )
}

/// The API server behind the path does not answer.
pub(crate) fn unavailable(cause: &str) -> Answer {
    let message = format!("the sandbox's stand-in reaches no API server for this path: {cause}");
    failure(
        StatusCode::SERVICE_UNAVAILABLE,
        "ServiceUnavailable",
        &message,
        &json!({}),
    )
}
