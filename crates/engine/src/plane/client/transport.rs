//! Transport of requests to a plane: over connections that several planes share, or through a service of a test.

use super::{
    pool::{Pool, Slot},
    service::USER_AGENT,
};
use crate::plane::kubeconfig::Credential;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;
use std::{io, sync::Arc, time::Duration};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

/// The body of a response.
pub(super) type Received = UnsyncBoxBody<Bytes, io::Error>;

/// An open watch, and its slot.
pub(super) type Opened = Result<(Response<Received>, Option<Slot>), BoxError>;

/// Transport; see the module.
pub(super) enum Transport {
    /// Over TCP and TLS.
    Network(Box<Network>),
    /// Without sockets.
    Given(BoxCloneSyncService<Request<Body>, Response<Received>, BoxError>),
}

/// Address and credential of the plane.
pub(super) struct Network {
    credential: Credential,
    base_path: String,
    pool: Arc<Pool>,
}

impl Transport {
    /// Transport to the plane of `credential`, over the connections of `pool`.
    pub(super) fn network(credential: Credential, pool: Arc<Pool>) -> Self {
        let base_path = credential.server.path().trim_end_matches('/').to_owned();
        Self::Network(Box::new(Network {
            credential,
            base_path,
            pool,
        }))
    }

    /// Sends a request other than a watch.
    pub(super) async fn call(&self, request: Request<Body>) -> Result<Response<Received>, BoxError> {
        match self {
            Self::Network(network) => {
                let answer = network.pool.calls().request(network.address(request)?);
                Ok(answer.await?.map(received))
            }
            Self::Given(service) => service.clone().oneshot(request).await,
        }
    }

    /// Opens a watch; the watch holds its slot on a connection until the slot is dropped.
    pub(super) async fn watch(&self, request: Request<Body>, limit: Duration) -> Opened {
        let network = match self {
            Self::Network(network) => network,
            Self::Given(service) => return Ok((service.clone().oneshot(request).await?, None)),
        };
        let (parts, body) = network.address(request)?.into_parts();
        let again = Request::from_parts(parts.clone(), Body::empty());
        let request = Request::from_parts(parts, body);
        let pool = network.pool.clone();
        let (mut lane, mut slot) = pool.lane();
        // Watches that start together wait for the same connection, and hyper fails all of them if the request that opens
        // the connection is dropped. A separate task continues even if its caller is dropped; then the response is
        // dropped with the task.
        let opening = tokio::spawn(async move {
            let opened = async {
                let response = lane.request(request).await;
                if response.is_ok() || slot.is_http1() || !pool.is_http1() {
                    return response;
                }
                // The connection has just shown that the server does not speak HTTP/2.
                (lane, slot) = pool.lane();
                lane.request(again).await
            };
            let response = tokio::time::timeout(limit, opened).await;
            match &response {
                Ok(Ok(_)) => slot.opened(),
                Ok(Err(_)) => {}
                Err(_) => slot.timed_out(),
            }
            (response, slot)
        });
        let (response, slot) = opening.await?;
        Ok((response??.map(received), Some(slot)))
    }
}

impl Network {
    fn address(&self, request: Request<Body>) -> Result<Request<Body>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let path = parts
            .uri
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let server = self.credential.server.clone().into_parts();
        let mut uri = http::uri::Parts::default();
        uri.scheme = server.scheme;
        uri.authority = server.authority;
        uri.path_and_query = Some(format!("{}{path}", self.base_path).parse()?);
        parts.uri = http::Uri::from_parts(uri)?;
        if let Some(token) = &self.credential.token {
            parts.headers.insert(header::AUTHORIZATION, token.clone());
        }
        parts
            .headers
            .insert(header::USER_AGENT, header::HeaderValue::from_static(USER_AGENT));
        Ok(Request::from_parts(parts, body))
    }
}

/// Boxes a body, so that all bodies have one type.
pub(super) fn received<B>(body: B) -> Received
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(io::Error::other).boxed_unsync()
}
