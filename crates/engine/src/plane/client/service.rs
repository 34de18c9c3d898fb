//! The stack below `kube::Client`: address, credential, time limits, metrics, and error responses not from an API
//! server.

use super::{
    CallError, Limits, SmallAnswer,
    large::PAGE_HELD_FOR,
    members::{self, Members},
    request::{Call, collect, retry_after, status_body},
    transport::{Received, Transport, received},
};
use crate::{
    error::chain,
    metrics::{Families, Family, PlaneKind},
    plane::health::{host::Host, pace::Under},
    watch_channel::Receiver,
};
use futures::{StreamExt, future::BoxFuture};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyStream, Full, StreamBody};
use kube::client::Body;
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::BoxError;

/// Service for the requests of one plane, on connections it may share.
#[derive(Clone)]
pub(super) struct PlaneService(Arc<Shared>);

struct Shared {
    plane: PlaneKind,
    way: Transport,
    permits: Semaphore,
    /// Permits for calls that the plane passes on.
    members: Members,
    /// Permits for pages of lists, shared with other planes.
    pages: Arc<Semaphore>,
    limits: Limits,
    metrics: Families,
    retired: Receiver<bool>,
    host: Arc<Host>,
    /// Tells the plane from others of its host.
    id: u32,
}

impl PlaneService {
    pub(super) fn new(
        plane: PlaneKind,
        way: Transport,
        pages: Arc<Semaphore>,
        limits: Limits,
        metrics: Families,
        retired: Receiver<bool>,
        host: Arc<Host>,
    ) -> Self {
        static PLANES: AtomicU32 = AtomicU32::new(0);
        let permits = Semaphore::new(limits.concurrency);
        Self(Arc::new(Shared {
            plane,
            way,
            permits,
            members: Members::default(),
            pages,
            limits,
            metrics,
            retired,
            host,
            id: PLANES.fetch_add(1, Ordering::Relaxed),
        }))
    }
}

impl tower::Service<Request<Body>> for PlaneService {
    type Response = Response<Received>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Received>, BoxError>>;

    /// Always ready: the wait for a permit is part of the request's own time limit and never delays another request.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { shared.perform(request).await })
    }
}

impl Shared {
    async fn perform(&self, request: Request<Body>) -> Result<Response<Received>, BoxError> {
        let call = Call::of(&request);
        let began = Instant::now();
        let limit = self.limits.call;
        let is_page = request.extensions().get::<SmallAnswer>().is_some();
        let outcome = async {
            // Not within the time limit: a wait for other planes is no failure of this one. First for those of the host, so
            // that a host which is slow holds no place of another. A member's answer says nothing of the host.
            let under = if call.member.is_none() && (is_page || call.is_watch()) {
                Some(self.host.pace.admit().await)
            } else {
                None
            };
            let page = if is_page {
                Some(self.pages.acquire().await?)
            } else {
                None
            };
            let answer = tokio::time::timeout(limit, async {
                match &call.member {
                    _ if call.is_watch() => self.watch(request, &call).await,
                    Some(member) => self.passed_on(request, member).await,
                    None => self.whole(request).await,
                }
            });
            let answer = self.paced((under, page), answer).await;
            answer.unwrap_or_else(|source| {
                let timeout = CallError::Timeout {
                    plane: self.plane,
                    verb: call.verb,
                    resource: call.resource.clone(),
                    limit,
                    source,
                };
                Err(timeout.into())
            })
        }
        .await;
        self.count(&call, began, outcome.as_ref().ok());
        outcome
    }

    /// Holds the places of a list or a starting watch until the answer is there, at most [`PAGE_HELD_FOR`], and tells the pace
    /// of the host how it was answered.
    async fn paced<E>(
        &self,
        (under, page): (Option<Under<'_>>, Option<SemaphorePermit<'_>>),
        answer: impl Future<Output = Result<Result<Response<Received>, BoxError>, E>>,
    ) -> Result<Result<Response<Received>, BoxError>, E> {
        let Some(under) = under else { return answer.await };
        let mut answer = pin!(answer);
        let Ok(answer) = tokio::time::timeout(PAGE_HELD_FOR, &mut answer).await else {
            drop((under, page));
            return answer.await;
        };
        match &answer {
            Ok(Ok(response)) if response.status() == StatusCode::TOO_MANY_REQUESTS => {
                let after = retry_after(response.headers());
                under.refused(self.id, after.map(|after| Duration::from_secs(after.into())));
            }
            Ok(Ok(_)) => under.answered(self.id),
            Ok(Err(_)) | Err(_) => {}
        }
        answer
    }

    /// Error with all causes: a transport error displays only its outermost layer, and the reason is in an inner one.
    fn broken(&self, error: &BoxError) -> CallError {
        CallError::Connection {
            plane: self.plane,
            cause: chain(error.as_ref()),
        }
    }

    async fn whole(&self, request: Request<Body>) -> Result<Response<Received>, BoxError> {
        let _permit = self.permits.acquire().await?;
        let limit = if request.extensions().get::<SmallAnswer>().is_some() {
            self.limits.small_answer_bytes()
        } else {
            self.limits.answer_bytes
        };
        let response = self.way.call(request).await.map_err(|e| self.broken(&e))?;
        self.read(response, limit).await
    }

    /// A call that the plane passes on to a member, which may be slow or hostile: it takes no permit of other calls.
    async fn passed_on(&self, request: Request<Body>, member: &str) -> Result<Response<Received>, BoxError> {
        let new = || Arc::new(Semaphore::new(members::PLACES));
        let places = self.members.get(member.to_owned(), new);
        let _place = places.acquire().await?;
        let response = self.way.call(request).await.map_err(|e| self.broken(&e))?;
        self.read(response, members::ANSWER_BYTES).await
    }

    async fn watch(&self, request: Request<Body>, call: &Call) -> Result<Response<Received>, BoxError> {
        let (response, slot) = self
            .way
            .watch(request, self.limits.call)
            .await
            .map_err(|e| self.broken(&e))?;
        if !response.status().is_success() {
            let limit = match call.member {
                Some(_) => members::ANSWER_BYTES,
                None => self.limits.answer_bytes,
            };
            return self.read(response, limit).await;
        }
        let mut retired = self.retired.clone();
        // If the plane's client is dropped without a replacement, the reader of the watch decides when to stop.
        let retired = Box::pin(async move { retired.wait_for(|retired| retired).await });
        Ok(response.map(|events| {
            let events = BodyStream::new(events).take_until(retired);
            received(StreamBody::new(events.map(move |frame| {
                let _held = &slot;
                frame
            })))
        }))
    }

    async fn read(&self, response: Response<Received>, limit: usize) -> Result<Response<Received>, BoxError> {
        let (mut parts, body) = response.into_parts();
        let mut bytes = collect(body, limit).await.map_err(|e| -> BoxError {
            if e.is::<http_body_util::LengthLimitError>() {
                CallError::TooLarge {
                    plane: self.plane,
                    limit,
                }
                .into()
            } else {
                e
            }
        })?;
        if parts.status.is_client_error() || parts.status.is_server_error() {
            let (code, status) = status_body(parts.status, &parts.headers, &bytes);
            parts.status = code;
            bytes = status.into();
        }
        Ok(Response::from_parts(parts, received(Full::new(bytes))))
    }

    fn count(&self, call: &Call, began: Instant, response: Option<&Response<Received>>) {
        let host = self.plane.as_str();
        let code = response.map(Response::status);
        let code = code.as_ref().map_or("<error>", label);
        let metrics = &self.metrics;
        metrics.count(Family::Requests, &[code, call.method.as_str(), host]);
        metrics.observe(Family::RequestSeconds, &[call.verb, host], began.elapsed());
        let labels = [host, call.verb, &call.resource, code];
        metrics.count(Family::ApiRequests, &labels);
    }
}

/// Statuses that API servers and proxies send.
const STATUSES: [u16; 25] = [
    200, 201, 202, 301, 302, 307, 308, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 500,
    501, 502, 503, 504,
];

/// The label of a status. All but [`STATUSES`] share one, because a plane may answer with any number.
fn label(code: &StatusCode) -> &str {
    if STATUSES.contains(&code.as_u16()) {
        code.as_str()
    } else {
        "other"
    }
}

/// User agent in the API servers' logs.
pub(super) const USER_AGENT: &str = concat!("fedgate/", env!("CARGO_PKG_VERSION"));
