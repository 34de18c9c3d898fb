//! The API server of the cluster that runs the Pods, as far as the commands use it: Pods, the Secret, port-forwards.

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::{StatusCode, header::AUTHORIZATION},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};

/// The port `admin` of each Pod.
const ADMIN: u16 = 8080;
/// The base64 of `operator-token-of-the-secret`.
const TOKEN: &str = "b3BlcmF0b3ItdG9rZW4tb2YtdGhlLXNlY3JldA==";

/// The API server.
pub(crate) struct Host {
    pub(crate) port: u16,
    state: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Ports of the loopback by Pod; 0 if nothing listens in it.
    pods: Mutex<BTreeMap<String, u16>>,
    has_no_secret: Mutex<bool>,
    refuses_the_credential: Mutex<bool>,
    /// The base64 of a later token of the Secret.
    token: Mutex<Option<&'static str>>,
    /// `<verb> <resource>` that are forbidden.
    forbidden: Mutex<HashSet<&'static str>>,
    requests: Mutex<Vec<String>>,
    /// Arguments of the Pods' container.
    arguments: Mutex<Vec<&'static str>>,
}

impl Host {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Shared::default());
        let base = "/api/v1/namespaces/{namespace}";
        let router = Router::new()
            .route(&format!("{base}/pods"), get(list))
            .route(&format!("{base}/pods/{{pod}}/portforward"), get(forward))
            .route(&format!("{base}/secrets/fedgate-admin"), get(secret))
            .with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, state }
    }

    /// A Pod whose port `admin` is this port of the loopback.
    pub(crate) fn pod(&self, name: &str, port: u16) {
        self.state.pods.lock().insert(name.to_owned(), port);
    }

    /// The Pods run with these arguments.
    pub(crate) fn runs_with(&self, arguments: &[&'static str]) {
        *self.state.arguments.lock() = arguments.to_vec();
    }

    pub(crate) fn forbids(&self, what: &'static str) {
        self.state.forbidden.lock().insert(what);
    }

    /// The Secret has this token, in base64, from now on.
    pub(crate) fn rotates(&self, token: &'static str) {
        *self.state.token.lock() = Some(token);
    }

    pub(crate) fn has_no_secret(&self) {
        *self.state.has_no_secret.lock() = true;
    }

    /// Answers every request with 401 from now on.
    pub(crate) fn refuses_the_credential(&self) {
        *self.state.refuses_the_credential.lock() = true;
    }

    /// `<verb> <resource> <user's token>` of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().clone()
    }

    /// A kubeconfig whose user has the token `own-token`.
    pub(crate) fn kubeconfig(&self) -> String {
        let server = format!("http://127.0.0.1:{}", self.port);
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "host",
            "clusters": [{"name": "host", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "own-token"}}],
            "contexts": [{"name": "host", "context": {"cluster": "host", "user": "u"}}]});
        config.to_string()
    }
}

impl Shared {
    /// Notes a request, and answers it if it is forbidden.
    fn note(&self, what: &'static str, request: &Request) -> Result<(), Box<Response>> {
        let token = request.headers().get(AUTHORIZATION).unwrap().to_str().unwrap();
        self.requests.lock().push(format!("{what} {token}"));
        if *self.refuses_the_credential.lock() {
            return Err(Box::new(status(
                StatusCode::UNAUTHORIZED,
                "Unauthorized",
                "Unauthorized",
            )));
        }
        if self.forbidden.lock().contains(what) {
            let message = format!("User \"u\" cannot {what}");
            return Err(Box::new(status(StatusCode::FORBIDDEN, "Forbidden", &message)));
        }
        Ok(())
    }
}

fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code.as_u16(),
        "reason": reason, "message": message});
    (code, Json(status)).into_response()
}

async fn list(State(state): State<Arc<Shared>>, request: Request) -> Response {
    if let Err(refused) = state.note("list pods", &request) {
        return *refused;
    }
    let query = request.uri().query().unwrap();
    assert!(
        query.contains("labelSelector=app.kubernetes.io%2Fname%3Dfedgate-gateway"),
        "{query}"
    );
    let pods = state.pods.lock();
    let item = |name: &String| {
        json!({"metadata": {"name": name}, "status": {"phase": "Running"}, "spec": {"containers": [
            {"name": "gateway", "args": *state.arguments.lock(), "ports": [{"name": "other", "containerPort": 1}, {"name": "admin", "containerPort": ADMIN}]}]}})
    };
    let items: Vec<Value> = pods.keys().map(item).collect();
    Json(json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})).into_response()
}

async fn secret(State(state): State<Arc<Shared>>, request: Request) -> Response {
    if let Err(refused) = state.note("get secrets", &request) {
        return *refused;
    }
    if *state.has_no_secret.lock() {
        return status(
            StatusCode::NOT_FOUND,
            "NotFound",
            "secrets \"fedgate-admin\" not found",
        );
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fedgate-admin"}, "data": {"token": state.token.lock().unwrap_or(TOKEN)}});
    Json(secret).into_response()
}

/// The subprotocol of port-forwards: a data and an error channel, each of which begins with the port.
async fn forward(
    State(state): State<Arc<Shared>>,
    Path(path): Path<HashMap<String, String>>,
    mut request: Request,
) -> Response {
    if let Err(refused) = state.note("get pods/portforward", &request) {
        return *refused;
    }
    assert_eq!(request.uri().query(), Some("&ports=8080"));
    let target = state.pods.lock()[&path["pod"]];
    let accept = derive_accept_key(request.headers()["sec-websocket-key"].as_bytes());
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = TokioIo::new(upgrade.await.unwrap());
        relay(
            WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await,
            target,
        )
        .await;
    });
    let headers = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-accept", &accept),
        ("sec-websocket-protocol", "v4.channel.k8s.io"),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn relay<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut client: WebSocketStream<S>,
    target: u16,
) {
    let frame = |channel: u8, bytes: &[u8]| Message::binary([&[channel], bytes].concat());
    for channel in [0, 1] {
        client.send(frame(channel, &ADMIN.to_le_bytes())).await.unwrap();
    }
    let Ok(mut pod) = TcpStream::connect(("127.0.0.1", target)).await else {
        client
            .send(frame(1, b"error forwarding port 8080: connection refused"))
            .await
            .unwrap();
        let _ = client.close(None).await;
        // A connection that is dropped with unread requests is reset, and the client loses the words.
        while let Some(Ok(_)) = client.next().await {}
        return;
    };
    let mut bytes = vec![0; 16 << 10];
    loop {
        tokio::select! {
            message = client.next() => match message {
                Some(Ok(Message::Binary(message))) if message.first() == Some(&0) => {
                    if pod.write_all(&message[1..]).await.is_err() {
                        break;
                    }
                }
                Some(Ok(_)) => {}
                // The command has ended.
                Some(Err(_)) | None => return,
            },
            read = pod.read(&mut bytes) => match read {
                Ok(read @ 1..) => if client.send(frame(0, &bytes[..read])).await.is_err() {
                    return;
                },
                _ => break,
            },
        }
    }
    let _ = client.close(None).await;
}
