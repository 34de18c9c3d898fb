//! How requests reach a plane: over connections that several planes share, or through a service that a test brings.

use super::{
    pool::{Pool, Slot},
    service::USER_AGENT,
};
use crate::plane::kubeconfig::Credential;
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use http::{Request, Response, header};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;
use std::{io, sync::Arc, time::Duration};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

/// A body as it comes in.
pub(super) type Received = UnsyncBoxBody<Bytes, io::Error>;

/// A watch that is open, and its place.
pub(super) type Opened = Result<(Response<Received>, Option<Slot>), BoxError>;

/// See the module.
pub(super) enum Way {
    /// Over TCP and TLS.
    Network(Box<Network>),
    /// Without sockets.
    Given(BoxCloneSyncService<Request<Body>, Response<Received>, BoxError>),
}

/// Where the plane is, and who asks.
pub(super) struct Network {
    credential: Credential,
    base_path: String,
    pool: Arc<Pool>,
}

impl Way {
    /// To the plane that `credential` reaches, over the connections of `pool`.
    pub(super) fn network(credential: Credential, pool: Arc<Pool>) -> Self {
        let base_path = credential.server.path().trim_end_matches('/').to_owned();
        Self::Network(Box::new(Network {
            credential,
            base_path,
            pool,
        }))
    }

    /// Sends a request that is no watch.
    pub(super) fn call(
        &self,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Received>, BoxError>> {
        match self {
            Self::Network(network) => match network.address(request) {
                Ok(request) => {
                    let answer = network.pool.calls.request(request);
                    Box::pin(async { Ok(answer.await?.map(received)) })
                }
                Err(error) => Box::pin(ready(Err(error))),
            },
            Self::Given(service) => Box::pin(service.clone().oneshot(request)),
        }
    }

    /// Opens a watch; it holds its place on a connection as long as the slot lives.
    pub(super) fn watch(&self, request: Request<Body>, limit: Duration) -> BoxFuture<'static, Opened> {
        match self {
            Self::Network(network) => match network.address(request) {
                Ok(request) => {
                    let (lane, mut slot) = network.pool.lane();
                    // Watches that begin together wait for one connection, and hyper fails them all if the request that
                    // opens it is dropped. A task of its own goes on although its caller has gone; its end drops what
                    // nobody wants.
                    let opening = tokio::spawn(async move {
                        let response = tokio::time::timeout(limit, lane.request(request)).await;
                        match &response {
                            Ok(Ok(_)) => slot.opened(),
                            Ok(Err(_)) => {}
                            Err(_) => slot.timed_out(),
                        }
                        (response, slot)
                    });
                    Box::pin(async {
                        let (response, slot) = opening.await?;
                        Ok((response??.map(received), Some(slot)))
                    })
                }
                Err(error) => Box::pin(ready(Err(error))),
            },
            Self::Given(service) => {
                let answer = service.clone().oneshot(request);
                Box::pin(async { Ok((answer.await?, None)) })
            }
        }
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
            parts.headers.insert(header::AUTHORIZATION, token.0.clone());
        }
        parts
            .headers
            .insert(header::USER_AGENT, header::HeaderValue::from_static(USER_AGENT));
        Ok(Request::from_parts(parts, body))
    }
}

/// Boxes a body, so that all have one type.
pub(super) fn received<B>(body: B) -> Received
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(io::Error::other).boxed_unsync()
}
