//! A request on its way to the API server behind a front.

use super::refusal;
use bytes::Bytes;
use http::{HeaderMap, Response, Uri, header, uri::Authority};
use http_body_util::Full;
use hyper_util::client::legacy;

/// Removes the headers that are about the connection which a request came by.
pub(crate) fn leave_connection(headers: &mut HeaderMap) {
    for name in [
        header::HOST,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// The address of a path, with its query, at an API server.
pub(crate) fn address(server: &Authority, path_and_query: &str) -> Option<Uri> {
    Uri::builder()
        .scheme("https")
        .authority(server.clone())
        .path_and_query(path_and_query)
        .build()
        .ok()
}

/// The answer where a path makes no address.
pub(crate) fn no_address() -> Response<Full<Bytes>> {
    refusal::unavailable("the path makes no address")
}

/// The answer where the API server gave none.
pub(crate) fn unanswered(error: &legacy::Error) -> Response<Full<Bytes>> {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    refusal::unavailable(&cause.unwrap_or_else(|| error.to_string()))
}
