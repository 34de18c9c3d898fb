//! The console, a page for browsers (contract: operations.md §4): its files, the headers of its answers, and the sessions by
//! which a browser may ask the operations API.

mod assets;
pub mod session;

use crate::api::Refusal;
use axum::{
    Router,
    body::Body,
    extract::Path,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};
use fedgate_operations::ErrorCode;

/// No script, style, image or request but those of the address itself, no inline script, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Headers of every answer of the console.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (OPENER_POLICY, "same-origin"),
    (RESOURCE_POLICY, "same-origin"),
];
const OPENER_POLICY: header::HeaderName = header::HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: header::HeaderName = header::HeaderName::from_static("cross-origin-resource-policy");

/// An address has one content for ever: another content has another address.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The page and its files. They hold nothing of a tenant and need no credential.
pub fn router() -> Router {
    Router::new()
        .route("/console", get(page))
        .route("/console/", get(page))
        .route("/console/a/{hash}/{file}", get(file))
}

/// Adds the headers of the console to an answer, and `no-store` unless it says otherwise.
pub fn protect(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A refusal: as the API says it, and as text where a person has opened a page. Without a challenge, for a browser that has
/// no token to show.
pub fn refused(path: &str, code: ErrorCode, message: &str, next: &str) -> Response {
    let refusal = Refusal::new(code, message, next);
    if path.starts_with("/api/") || path == session::PATH {
        return refusal.bare();
    }
    (refusal.status(), format!("{message}\n{next}\n")).into_response()
}

async fn page() -> Response {
    (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
        assets::page(),
    )
        .into_response()
}

async fn file(Path((hash, name)): Path<(String, String)>) -> Response {
    let Some(asset) = assets::file(&hash, &name) else {
        let refusal = Refusal::new(
            ErrorCode::NotFound,
            "the console has no such file",
            "load /console again: after an upgrade its files have other addresses",
        );
        return refusal.into_response();
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
    (headers, Body::from(asset.content)).into_response()
}

#[cfg(test)]
mod tests;
