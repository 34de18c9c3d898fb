//! An API server in memory that serves one Lease.

use crate::plane::client::Connection;
use axum::body::{Body, Bytes};
use futures::Stream;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::broadcast;

/// API server with one Lease, resourceVersions and watches; tests can make it fail.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Mutex<Stored>>);

pub(crate) struct Stored {
    pub(crate) lease: Option<Value>,
    pub(crate) version: u64,
    pub(crate) fail: Option<Failure>,
    pub(crate) writes: usize,
    pub(crate) events: broadcast::Sender<Bytes>,
}

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No request is answered within the 10 s that a call may take.
    Hang,
    /// The next request hangs, later requests succeed.
    HangOnce,
    /// Each request fails with 500.
    Error,
    /// Executes the request and answers after this many seconds.
    Late(u64),
    /// Rejects watches, serves all other requests.
    NoWatch,
}

impl Server {
    /// Number of writes that were stored.
    pub fn writes(&self) -> usize {
        self.0.lock().writes
    }

    /// A server without a Lease.
    pub fn new() -> Self {
        let events = broadcast::Sender::new(64);
        Self(Arc::new(Mutex::new(Stored {
            lease: None,
            version: 1,
            fail: None,
            writes: 0,
            events,
        })))
    }

    /// A connection to it.
    pub fn plane(&self) -> Connection {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Connection::of_client(kube::Client::new(service, "default"))
    }

    /// Fails from now on; `None` ends it.
    pub fn fail(&self, failure: Option<Failure>) {
        self.0.lock().fail = failure;
    }

    /// The `holderIdentity` of the Lease.
    pub fn holder(&self) -> String {
        let held = self.0.lock();
        held.lease
            .as_ref()
            .and_then(|l| l["spec"]["holderIdentity"].as_str())
            .unwrap_or("(no lease)")
            .to_owned()
    }

    /// Changes the Lease as another client would.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut held = self.0.lock();
        let mut lease = held.lease.clone().unwrap();
        change(&mut lease);
        held.store(lease);
    }

    /// Deletes the Lease.
    pub fn delete(&self) {
        let mut held = self.0.lock();
        let lease = held.lease.take().unwrap();
        held.send("DELETED", &lease);
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let failure = self.0.lock().fail;
        match failure {
            Some(Failure::Hang | Failure::HangOnce) => {
                if failure == Some(Failure::HangOnce) {
                    self.fail(None);
                }
                tokio::time::sleep(Duration::from_secs(10)).await;
                return status(504, "Timeout");
            }
            Some(Failure::Error) => return status(500, "InternalError"),
            Some(Failure::NoWatch) if request.uri().query().is_some_and(|q| !q.is_empty()) => {
                return status(403, "Forbidden");
            }
            _ => {}
        }
        let answer = self.execute(request).await;
        if let Some(Failure::Late(by)) = failure {
            tokio::time::sleep(Duration::from_secs(by)).await;
        }
        answer
    }

    async fn execute(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let watching = request.uri().query().is_some_and(|q| q.contains("watch=true"));
        let single = request.uri().path().ends_with("/gate");
        let (method, body) = (
            request.method().clone(),
            request.into_body().collect().await.unwrap().to_bytes(),
        );
        let mut held = self.0.lock();
        match method {
            Method::GET if watching => {
                let events = event_stream(held.events.subscribe());
                Response::new(Body::from_stream(events))
            }
            Method::GET if single => match &held.lease {
                Some(lease) => json_body(lease),
                None => status(404, "NotFound"),
            },
            Method::GET => json_body(&json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
                "metadata": {"resourceVersion": held.version.to_string()},
                "items": held.lease.iter().collect::<Vec<_>>(),
            })),
            Method::POST if held.lease.is_some() => status(409, "AlreadyExists"),
            Method::PUT if held.lease.is_none() => status(404, "NotFound"),
            _ => {
                let new: Value = serde_json::from_slice(&body).unwrap();
                let seen = &new["metadata"]["resourceVersion"];
                if method == Method::PUT && !seen.as_str().is_some_and(|v| v.parse() == Ok(held.version)) {
                    return status(409, "Conflict");
                }
                held.writes += 1;
                json_body(&held.store(new))
            }
        }
    }
}

impl Stored {
    pub(crate) fn store(&mut self, mut lease: Value) -> Value {
        let before = self.lease.as_ref().map(|had| had["metadata"]["uid"].clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["uid"] = before.unwrap_or_else(|| json!(format!("u{}", self.version)));
        self.lease = Some(lease.clone());
        self.send(kind, &lease);
        lease
    }

    pub(crate) fn send(&self, kind: &str, lease: &Value) {
        let event = format!("{}\n", json!({"type": kind, "object": lease}));
        let _ = self.events.send(event.into());
    }
}

fn event_stream(receiver: broadcast::Receiver<Bytes>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.ok().map(|event| (Ok(event), receiver))
    })
}

fn json_body(value: &Value) -> Response<Body> {
    Response::new(Body::from(value.to_string()))
}

fn status(code: u16, reason: &str) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason});
    Response::builder()
        .status(code)
        .body(Body::from(body.to_string()))
        .unwrap()
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}
