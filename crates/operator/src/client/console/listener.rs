//! The local port: who may ask there. Every process and every page of this machine can reach it.

use super::{forwarder::Forwarder, opening::Page};
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Uri, header, request::Parts},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use fedgate_admin::console::{
    self, protect, refused,
    session::{self, Key, NoRandom, SESSION, credential},
};
use fedgate_operations::ErrorCode;
use fedgate_terminal::error::{Error, Kind};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::{net::SocketAddr, sync::Arc};

/// The next step of a page without a session.
const AGAIN: &str = "run fedgate console again, and open the address that it prints";

/// Sessions of this process, and the code that begins one.
pub(super) struct Sessions {
    address: SocketAddr,
    key: Key,
    /// The code, until it is used.
    code: Mutex<Option<Code>>,
    forwarder: Arc<Forwarder>,
}

/// A code that can be used, and what exists as long as it can.
struct Code {
    /// SHA-256 of its text.
    digest: [u8; 32],
    /// The page that leads the browser to it.
    _page: Option<Page>,
}

impl Sessions {
    /// A listener at this address, which admits the page that shows this code.
    pub(super) fn new(
        address: SocketAddr,
        forwarder: Arc<Forwarder>,
        code: &str,
        page: Option<Page>,
    ) -> Result<Arc<Self>, NoRandom> {
        let digest = Sha256::digest(code).into();
        Ok(Arc::new(Self {
            address,
            key: Key::random()?,
            code: Mutex::new(Some(Code { digest, _page: page })),
            forwarder,
        }))
    }

    /// The routes: the page, its code, and what is forwarded.
    pub(super) fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/api/v1/{*path}", get(forward))
            .route_layer(middleware::from_fn_with_state(self.clone(), of_session))
            .route(session::PATH, post(open))
            .with_state(self.clone())
            .merge(console::router())
            .fallback(nothing)
            .layer(middleware::from_fn_with_state(self, under_own_name))
            .layer(middleware::map_response(async |response| protect(response)))
    }

    /// True if a request was made for this address, and by no page of another origin.
    fn is_own(&self, headers: &HeaderMap) -> bool {
        let only = |name, wanted: &str| headers.get_all(name).iter().all(|value| value == wanted);
        headers.get_all(header::HOST).iter().count() == 1
            && only(header::HOST, &self.address.to_string())
            && only(header::ORIGIN, &format!("http://{}", self.address))
    }

    /// Uses the code up; false if it is another, or was used.
    fn uses(&self, shown: &str) -> bool {
        let shown: [u8; 32] = Sha256::digest(shown).into();
        // Digests may be compared in any time: none can be chosen byte by byte.
        self.code.lock().take_if(|code| code.digest == shown).is_some()
    }
}

async fn under_own_name(State(listener): State<Arc<Sessions>>, request: Request, next: Next) -> Response {
    if listener.is_own(request.headers()) {
        return next.run(request).await;
    }
    let (path, next) = (
        request.uri().path(),
        format!("open http://{}/console", listener.address),
    );
    refused(
        path,
        ErrorCode::Misdirected,
        "Host or Origin is not that of this address",
        &next,
    )
}

/// Admits the page that the code gave a session.
async fn of_session(State(listener): State<Arc<Sessions>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let shown = credential(&parts, SESSION);
    if shown.is_some_and(|shown| listener.key.admits(shown, session::now())) {
        return next.run(Request::from_parts(parts, body)).await;
    }
    refused(
        parts.uri.path(),
        ErrorCode::Unauthorized,
        "this page has no session",
        AGAIN,
    )
}

/// Gives a session for the code.
async fn open(State(listener): State<Arc<Sessions>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if credential(&parts, "bearer").is_some_and(|code| listener.uses(code)) {
        return session::given(&listener.key.begin(session::now()));
    }
    let message = "the code is wrong, or was used";
    refused(session::PATH, ErrorCode::Unauthorized, message, AGAIN)
}

async fn forward(State(listener): State<Arc<Sessions>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let answer = listener.forwarder.clone().forward(&parts).await;
    answer.unwrap_or_else(|error| failed(&parts, error))
}

async fn nothing(uri: Uri) -> Response {
    refused(
        uri.path(),
        ErrorCode::NotFound,
        "there is no such path here",
        "open /console",
    )
}

/// The answer to a request that reached no replica.
fn failed(parts: &Parts, error: Error) -> Response {
    let code = match error.kind {
        Kind::Forbidden => ErrorCode::Forbidden,
        _ => ErrorCode::Unavailable,
    };
    let cause = error.cause.map(|cause| format!(": {cause}")).unwrap_or_default();
    let message = format!("{}{cause}", error.what);
    refused(
        parts.uri.path(),
        code,
        &message,
        error.next.as_deref().unwrap_or("ask again"),
    )
}
