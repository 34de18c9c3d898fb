//! A request on its way to the API server behind a front.

use super::{
    refusal::unavailable,
    serve::{Answer, boxed},
    upstream::Forwarder,
};
use http::{HeaderMap, Request, Uri, Version, header, request::Parts, uri::Authority};
use hyper::body::Incoming;
use std::error::Error;

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

/// Sends a request to an API server, there with this path and query.
pub(crate) async fn on(
    forwarder: &Forwarder,
    server: &Authority,
    path_and_query: &str,
    (mut head, body): (Parts, Incoming),
) -> Result<Answer, Answer> {
    let uri = Uri::builder().scheme("https").authority(server.clone());
    let uri = uri.path_and_query(path_and_query).build();
    head.uri = uri.map_err(|_| unavailable("the path makes no address"))?;
    head.version = Version::HTTP_2;
    leave_connection(&mut head.headers);
    let answer = forwarder.request(Request::from_parts(head, body)).await;
    let answer = answer.map(boxed);
    answer.map_err(|error| {
        let cause = error.source().map(ToString::to_string);
        unavailable(&cause.unwrap_or_else(|| error.to_string()))
    })
}
