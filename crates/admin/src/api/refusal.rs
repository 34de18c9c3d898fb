//! Answers to requests that fail.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use fedgate_operations::{API_VERSION, ErrorAnswer, ErrorCode};

/// The `next` of a request that the documents explain.
const SEE: &str = "see docs/reference/operations-api.md";

/// A request that is not answered, with the reason and the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The class of the error.
    pub code: ErrorCode,
    /// The reason.
    pub message: String,
    /// The next step.
    pub next: String,
}

impl Refusal {
    /// A refusal with a next step of its own.
    pub fn new(code: ErrorCode, message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            next: next.into(),
        }
    }

    /// A parameter or a path that is not allowed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, message, SEE)
    }

    /// Too many requests.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Busy, message, "ask again in a second")
    }

    /// Not available now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unavailable, message, "ask again in a second")
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self.code {
            ErrorCode::Invalid => StatusCode::BAD_REQUEST,
            ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ErrorCode::Forbidden => StatusCode::FORBIDDEN,
            ErrorCode::NotFound => StatusCode::NOT_FOUND,
            ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ErrorCode::Expired => StatusCode::GONE,
            ErrorCode::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            ErrorCode::Busy => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The header that belongs to this status.
    fn header(&self) -> Option<(header::HeaderName, &'static str)> {
        match self.code {
            ErrorCode::Unauthorized => Some((header::WWW_AUTHENTICATE, "Bearer")),
            ErrorCode::MethodNotAllowed => Some((header::ALLOW, "GET, HEAD")),
            ErrorCode::Busy | ErrorCode::Unavailable => Some((header::RETRY_AFTER, "1")),
            _ => None,
        }
    }
}

impl Refusal {
    /// The answer without the header of its status, e.g. without a challenge to show a token.
    pub fn bare(self) -> Response {
        let status = self.status();
        let answer = ErrorAnswer {
            api_version: API_VERSION.to_owned(),
            kind: "Error".to_owned(),
            code: self.code,
            message: self.message,
            next: self.next,
        };
        // A struct of texts is always serialized.
        let text = serde_json::to_vec(&answer).unwrap_or_default();
        json(status, text.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let extra = self.header();
        let mut response = self.bare();
        if let Some((name, value)) = extra {
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// An answer that is not to be cached.
pub(super) fn json(status: StatusCode, text: bytes::Bytes) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Body::from(text)).into_response()
}
