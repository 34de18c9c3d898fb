//! Requests of the browser go to the leader; when another replica leads, the next ones go there, and open streams end so that
//! the browser opens them anew.

use super::super::{
    answer::Answer,
    events::Body as ReplicaBody,
    failure,
    replicas::{Address, Replicas, whole},
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use fedgate_terminal::error::Error;
use futures::stream;
use http_body_util::BodyExt;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};
use tower::BoxError;

/// Asked to find the leader, and whether it still leads.
const PATH: &str = "/overview";
/// Time after which a stream that is alive has its replica asked whether it still leads.
const CHECK: Duration = Duration::from_secs(5);
/// Headers of the browser that a replica gets; its session and its origin stay here.
const ASKED: [header::HeaderName; 2] = [header::ACCEPT, LAST_EVENT_ID];
const LAST_EVENT_ID: header::HeaderName = header::HeaderName::from_static("last-event-id");
/// Headers of a replica that the browser gets; no challenge, because the browser has no token to show.
const ANSWERED: [header::HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    header::ALLOW,
];

/// The way to the leader.
pub(super) struct Forwarder {
    replicas: Replicas,
    /// The replica that led when it was asked last.
    leader: watch::Sender<Option<Address>>,
    /// Held while the leader is looked for: requests meanwhile wait for the same result.
    finding: Mutex<()>,
}

/// An answer, and whether it is of a replica that was held for the leader and is not.
type Answered = (Response, bool);

impl Forwarder {
    /// The way by these replicas.
    pub(super) fn new(replicas: Replicas) -> Self {
        Self {
            leader: watch::Sender::new(replicas.server().cloned()),
            replicas,
            finding: Mutex::default(),
        }
    }

    /// An error if no replica answers.
    pub(super) async fn find(&self) -> Result<(), Error> {
        self.replicas.best(PATH).await.map(drop)
    }

    /// Answers a request. If the leader has changed, the next one is asked.
    pub(super) async fn forward(self: Arc<Self>, request: &Parts) -> Result<Response, Error> {
        let address = self.leader().await?;
        match self.ask(&address, request).await {
            Ok((response, false)) => return Ok(response),
            Err(error) if self.replicas.server().is_some() => return Err(error),
            _ => self.forget(&address),
        }
        let address = self.leader().await?;
        self.ask(&address, request).await.map(|(response, _)| response)
    }

    /// The leader; without one, the freshest standby, which is looked for at each request.
    async fn leader(&self) -> Result<Address, Error> {
        let known = || self.leader.borrow().clone();
        if let Some(leader) = known() {
            return Ok(leader);
        }
        let _held = self.finding.lock().await;
        if let Some(leader) = known() {
            return Ok(leader);
        }
        let answer = self.replicas.best(PATH).await?;
        if answer.is_leader() {
            self.leader.send_replace(Some(answer.address.clone()));
        }
        Ok(answer.address)
    }

    /// The leader is to be looked for, unless that has happened already.
    fn forget(&self, former: &Address) {
        if self.replicas.server().is_none() {
            self.leader
                .send_if_modified(|leader| leader.take_if(|leader| leader == former).is_some());
        }
    }

    async fn ask(self: &Arc<Self>, address: &Address, request: &Parts) -> Result<Answered, Error> {
        let was_leader = self.replicas.server().is_none() && self.leader.borrow().as_ref() == Some(address);
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut sent = http::Request::builder().method(request.method.clone()).uri(path);
        for name in ASKED {
            if let Some(value) = request.headers.get(&name) {
                sent = sent.header(name, value);
            }
        }
        let end = Instant::now() + self.replicas.timeout();
        let late = |_| failure::late(address, self.replicas.timeout());
        let answer = tokio::time::timeout_at(end, self.replicas.send(address, sent)).await;
        let (parts, body) = answer.map_err(late)??.into_parts();
        let headers = passed(&parts.headers);
        let kind = headers.get(header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            let body = Body::from_stream(self.clone().stream(body));
            return Ok(((parts.status, headers, body).into_response(), false));
        }
        let whole = tokio::time::timeout_at(end, whole(body)).await;
        let whole = whole.map_err(late)?;
        let whole = whole.map_err(|error| failure::unreachable(address, error.as_ref()))?;
        if parts.status == StatusCode::UNAUTHORIZED {
            let text = String::from_utf8_lossy(&whole);
            let has_token = self.replicas.has_credential();
            return Err(failure::refused(address, parts.status, None, &text, has_token));
        }
        let is_of_former_leader = was_leader
            && request.uri.path().starts_with("/api/")
            && is_of_standby(address, parts.status, &whole);
        Ok((
            (parts.status, headers, whole).into_response(),
            is_of_former_leader,
        ))
    }

    /// The bytes of a stream, until it ends or another replica leads.
    fn stream(self: Arc<Self>, body: ReplicaBody) -> impl stream::Stream<Item = Result<Bytes, BoxError>> {
        let mut leader = self.leader.subscribe();
        let at_begin = leader.borrow_and_update().clone();
        let state = (self, body, leader, Instant::now());
        stream::unfold(state, move |(forwarder, mut body, mut leader, mut checked)| {
            let at_begin = at_begin.clone();
            async move {
                let frame = tokio::select! {
                    frame = body.frame() => frame?,
                    _ = leader.wait_for(|leader| *leader != at_begin) => return None,
                };
                if checked.elapsed() >= CHECK {
                    checked = Instant::now();
                    tokio::spawn(forwarder.clone().check());
                }
                let bytes = frame.map(|frame| frame.into_data().unwrap_or_default());
                Some((bytes, (forwarder, body, leader, checked)))
            }
        })
    }

    /// Asks the leader whether it leads; without one, looks for it.
    async fn check(self: Arc<Self>) {
        let known = self.leader.borrow().clone();
        let Some(leader) = known else {
            // Without an answer the next check asks again.
            let _ = self.leader().await;
            return;
        };
        let answer = self.replicas.ask_at(&leader, PATH).await;
        if !answer.is_ok_and(|answer| answer.is_leader()) {
            self.forget(&leader);
        }
    }
}

fn passed(headers: &HeaderMap) -> HeaderMap {
    let passed = ANSWERED.into_iter().filter_map(|name| {
        let value = headers.get(&name)?.clone();
        Some((name, value))
    });
    passed.collect()
}

/// True if a document says that its replica does not lead.
fn is_of_standby(address: &Address, status: StatusCode, text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).into_owned();
    status == StatusCode::OK && Answer::read(address.clone(), text).is_ok_and(|answer| !answer.is_leader())
}
