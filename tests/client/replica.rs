//! A replica that serves canned answers.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::HashMap, convert::Infallible, sync::Arc};
use tokio::{
    net::TcpListener,
    sync::{broadcast, watch},
    task::JoinHandle,
};

/// A replica on a port of the loopback.
pub(crate) struct Replica {
    pub(crate) port: u16,
    state: Arc<Canned>,
    server: JoinHandle<()>,
}

struct Canned {
    /// The token without which the API answers 401.
    token: Mutex<Option<&'static str>>,
    /// Answers by path.
    answers: Mutex<HashMap<String, (u16, Value)>>,
    /// Paths with queries, each with its `Authorization`.
    requests: Mutex<Vec<(String, String)>>,
    events: broadcast::Sender<&'static str>,
    streams: watch::Sender<usize>,
    stopped: watch::Sender<bool>,
}

impl Replica {
    /// A replica without answers.
    pub(crate) async fn start() -> Self {
        Self::at(0).await
    }

    /// The same on this port.
    pub(crate) async fn at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Canned {
            token: Mutex::default(),
            answers: Mutex::default(),
            requests: Mutex::default(),
            events: broadcast::channel(16).0,
            streams: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, state, server }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers a path under `/api/v1` with this document.
    pub(crate) fn serves(&self, path: &str, document: Value) {
        self.refuses(path, 200, document);
    }

    /// Answers a path under `/api/v1` with this status and document.
    pub(crate) fn refuses(&self, path: &str, status: u16, document: Value) {
        let path = format!("/api/v1{path}");
        self.state.answers.lock().insert(path, (status, document));
    }

    /// Refuses any other token from now on.
    pub(crate) fn requires(&self, token: &'static str) {
        *self.state.token.lock() = Some(token);
    }

    /// The requests so far: path with query, and `Authorization`.
    pub(crate) fn requests(&self) -> Vec<(String, String)> {
        self.state.requests.lock().clone()
    }

    /// Sends an event to all streams.
    pub(crate) fn event(&self, name: &'static str) {
        self.state.events.send(name).unwrap();
    }

    /// Waits until this number of streams were opened.
    pub(crate) async fn streams(&self, count: usize) {
        let mut streams = self.state.streams.subscribe();
        streams.wait_for(|streams| *streams >= count).await.unwrap();
    }

    /// Ends the process, its streams included.
    pub(crate) fn stop(&self) {
        self.state.stopped.send_replace(true);
        self.server.abort();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An error of the API.
pub(crate) fn error(code: &str, message: &str, next: &str) -> Value {
    json!({"apiVersion": "operations.fedgate.dev/v1", "kind": "Error", "code": code, "message": message, "next": next})
}

async fn answer(State(state): State<Arc<Canned>>, request: Request) -> Response {
    let header = request.headers().get(AUTHORIZATION);
    let header = header
        .map(|value| value.to_str().unwrap().to_owned())
        .unwrap_or_default();
    let uri = request.uri().clone();
    let asked = uri.path_and_query().unwrap().to_string();
    let wanted = state.token.lock().map(|token| format!("Bearer {token}"));
    let is_refused = wanted.is_some_and(|wanted| wanted != header) && uri.path().starts_with("/api/");
    state.requests.lock().push((asked, header));
    if is_refused {
        let error = error("Unauthorized", "the token is wrong", "send the right one");
        return (StatusCode::UNAUTHORIZED, axum::Json(error)).into_response();
    }
    if uri.path() == "/api/v1/events" {
        return events(&state);
    }
    let answers = state.answers.lock();
    let Some((status, document)) = answers.get(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let status = StatusCode::from_u16(*status).unwrap();
    let retry_after = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let mut response = (status, axum::Json(document)).into_response();
    if retry_after {
        response.headers_mut().insert("retry-after", "7".parse().unwrap());
    }
    if status == StatusCode::UNAUTHORIZED {
        let challenge = "Bearer".parse().unwrap();
        response.headers_mut().insert("www-authenticate", challenge);
    }
    response
}

fn events(state: &Arc<Canned>) -> Response {
    let receiver = state.events.subscribe();
    let mut stopped = state.stopped.subscribe();
    let text =
        |name: &str| Ok::<_, Infallible>(Bytes::from(format!("id: a-1\nevent: {name}\ndata: {{}}\n\n")));
    let later = stream::unfold(receiver, move |mut receiver| async move {
        let name = receiver.recv().await.ok()?;
        Some((text(name), receiver))
    });
    state.streams.send_modify(|streams| *streams += 1);
    let ended = async move {
        // A replica that is dropped has stopped, too.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let stream = stream::iter([text("hello")])
        .chain(later)
        .take_until(Box::pin(ended));
    ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
}
