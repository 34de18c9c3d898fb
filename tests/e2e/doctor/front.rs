//! A server in front of a plane's API server that passes everything on, and gives the answers another `Date` or another
//! version: what no API server of the suite can be brought to say.

use super::clinic::Clinic;
use crate::support::{credentials, tls};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{
        StatusCode,
        header::{ACCEPT, CONTENT_TYPE, DATE},
    },
    response::Response,
    serve::Listener,
};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{path::PathBuf, sync::Arc};
use tokio::task::JoinHandle;

/// The answers that differ from those of the API server behind it.
#[derive(Clone, Default)]
pub(super) struct Lie {
    /// Seconds that are added to `Date`.
    pub(super) late: i64,
    /// The version.
    pub(super) version: Option<&'static str>,
}

struct Inside {
    behind: Client,
    lie: Mutex<Lie>,
}

/// See the module. Dropped, it gives the clinic the plane's own kubeconfig back.
pub(super) struct Front {
    file: PathBuf,
    kubeconfig: String,
    inside: Arc<Inside>,
    server: JoinHandle<()>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.server.abort();
        credentials::replace(&self.file, &self.kubeconfig);
    }
}

impl Front {
    /// Puts one in front of the plane that this file of the clinic is for.
    pub(super) async fn before(clinic: &Clinic, file: &str) -> Self {
        let file = clinic.file(file);
        let kubeconfig = std::fs::read_to_string(&file).expect("read a kubeconfig");
        let config = Kubeconfig::from_yaml(&kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let behind = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
        let inside = Arc::new(Inside {
            behind,
            lie: Mutex::default(),
        });
        let (listener, ca) = tls::listen().await;
        let address = listener.local_addr().expect("it has an address");
        let router = Router::new().fallback(pass).with_state(Arc::clone(&inside));
        let server = tokio::spawn(async move {
            let served = axum::serve(listener, router).await;
            served.expect("it serves until it is dropped");
        });
        let ca = json!(k8s_openapi::ByteString(ca.into_bytes()));
        let changed = credentials::changed(&file, |config| {
            config["clusters"][0]["cluster"] =
                json!({"server": format!("https://{address}"), "certificate-authority-data": ca});
            config["users"][0]["user"] = json!({"token": "of-the-front"});
        });
        credentials::replace(&file, &changed);
        Self {
            file,
            kubeconfig,
            inside,
            server,
        }
    }

    /// Says this from now on.
    pub(super) fn says(&self, lie: Lie) {
        *self.inside.lie.lock() = lie;
    }
}

async fn pass(State(inside): State<Arc<Inside>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("read a request");
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut onward = http::Request::builder().method(&head.method).uri(path);
    for name in [ACCEPT, CONTENT_TYPE] {
        if let Some(value) = head.headers.get(&name) {
            onward = onward.header(name, value);
        }
    }
    let onward = onward.body(kube::client::Body::from(body.to_vec()));
    let answer = inside.behind.send(onward.expect("a request")).await;
    let (mut head, body) = answer.expect("the API server answers").into_parts();
    let body = body.collect().await.expect("read an answer").to_bytes();
    let lie = inside.lie.lock().clone();
    let date = head.headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = rfc2822::parse(date.expect("an API server gives its time")).expect("a time");
    let date = date.timestamp() + SignedDuration::from_secs(lie.late);
    let body = match lie.version {
        Some(version) if path == "/version" => renamed(&body, version),
        _ => body,
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(head.status.as_u16()).expect("a status");
    if let Some(kind) = head.headers.remove(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response.headers_mut().insert(DATE, text(date));
    response
}

fn text(date: Timestamp) -> http::HeaderValue {
    let text = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&date);
    text.expect("a date").parse().expect("a header")
}

/// An answer of `/version` with another version.
fn renamed(body: &Bytes, version: &str) -> Bytes {
    let mut answer: Value = serde_json::from_slice(body).expect("a version");
    answer["gitVersion"] = json!(version);
    Bytes::from(answer.to_string())
}
