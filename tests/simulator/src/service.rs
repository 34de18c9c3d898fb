//! The way to a plane without sockets.

use crate::{
    body::Body,
    handle::{Answer, handle},
    log::Entry,
    plane::Shared,
    route::{Call, Verb},
    state::Down,
    status::Status,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use parking_lot::RwLock;
use std::{
    collections::BTreeMap,
    io,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::time::Instant;

/// All planes by name.
pub(crate) type Planes = RwLock<BTreeMap<Arc<str>, Arc<Shared>>>;

/// One user's way to one plane. Requests name paths from the plane's root.
#[derive(Debug, Clone)]
pub struct Service {
    pub(crate) planes: Arc<Planes>,
    pub(crate) plane: Arc<str>,
    pub(crate) user: Arc<str>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response<Body>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body
                .collect()
                .await
                .map_err(|error| io::Error::other(error.into()))?;
            service.answer(&head, &body.to_bytes()).await
        })
    }
}

impl Service {
    async fn answer(&self, head: &http::request::Parts, body: &[u8]) -> io::Result<Response<Body>> {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens here");
        let plane = self
            .planes
            .read()
            .get(&*self.plane)
            .cloned()
            .ok_or_else(refused)?;
        let down = plane.state.lock().down;
        match down {
            Some(Down::Refused) => return Err(refused()),
            Some(Down::BlackHole) => std::future::pending::<()>().await,
            None => {}
        }
        let call = Call::read(&head.method, head.uri.path(), head.uri.query(), &head.headers);
        let answer = match &call {
            Ok(call) => {
                let answer = handle(&plane, call, body);
                self.note(&plane, call, &answer);
                answer
            }
            Err(status) => Answer::refusal(status),
        };
        if let Some(delay) = plane.draw_delay() {
            tokio::time::sleep(delay).await;
        }
        respond(answer)
    }

    fn note(&self, plane: &Shared, call: &Call, answer: &Answer) {
        plane.count(call.verb);
        plane.common.log.add(|| Entry {
            n: 0,
            at: Instant::now(),
            plane: plane.name.clone(),
            user: self.user.clone(),
            verb: call.verb,
            group: call.group.as_str().into(),
            resource: if call.resource.is_empty() {
                &*call.path
            } else {
                &*call.resource
            }
            .into(),
            subresource: call.subresource.as_deref().map(Into::into),
            namespace: call.namespace.clone(),
            name: match (&answer.name, call.verb) {
                (Some(name), Verb::Create) => name.clone(),
                _ => call.name.clone(),
            },
            code: answer.code,
            changed: answer.changed,
            uid_precondition: answer.uid_precondition,
            fault: None,
        });
    }
}

fn respond(answer: Answer) -> io::Result<Response<Body>> {
    Response::builder()
        .status(answer.code)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::new(answer.content))
        .map_err(io::Error::other)
}

/// The answer to a request that no plane may see.
pub(crate) fn refuse(status: &Status) -> io::Result<Response<Body>> {
    respond(Answer::refusal(status))
}
