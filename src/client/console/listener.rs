//! The local port: who may ask there. Every process and every page of this machine can reach it.

use super::{forwarder::Forwarder, opening::Page};
use crate::console::{
    protect, refused,
    session::{self, Key, NoRandom},
};
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use fedgate_operations::ErrorCode;
use fedgate_terminal::error::{Error, Kind};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::{net::SocketAddr, sync::Arc};

/// The path of the one-time code.
const OPEN: &str = "/console/open";
/// The next step of a browser without a session.
const AGAIN: &str = "run fedgate console again, and open the address that it prints";

/// Sessions of this process, and the code that begins one.
pub(super) struct Sessions {
    address: SocketAddr,
    /// Name of the cookie: a host's cookies are of all its ports.
    cookie: String,
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
    /// A listener at this address, which admits the browser that shows this code.
    pub(super) fn new(
        address: SocketAddr,
        forwarder: Arc<Forwarder>,
        code: &str,
        page: Option<Page>,
    ) -> Result<Arc<Self>, NoRandom> {
        let digest = Sha256::digest(code).into();
        Ok(Arc::new(Self {
            address,
            cookie: format!("fedgate-console-{}", address.port()),
            key: Key::random()?,
            code: Mutex::new(Some(Code { digest, _page: page })),
            forwarder,
        }))
    }

    /// The routes: the code, and what is forwarded.
    pub(super) fn router(self: Arc<Self>) -> Router {
        let forwarded = get(forward);
        Router::new()
            .route("/console", forwarded.clone())
            .route("/console/", forwarded.clone())
            .route("/console/a/{*path}", forwarded.clone())
            .route("/api/v1/{*path}", forwarded)
            .route_layer(middleware::from_fn_with_state(self.clone(), of_session))
            .route(OPEN, get(open))
            .fallback(nothing)
            .layer(middleware::from_fn_with_state(self.clone(), under_own_name))
            .layer(middleware::map_response(async |response| protect(response)))
            .with_state(self)
    }

    /// True if a request was made for this address, and by no page of another origin.
    fn is_own(&self, headers: &HeaderMap) -> bool {
        let only = |name, wanted: &str| headers.get_all(name).iter().all(|value| value == wanted);
        headers.get_all(header::HOST).iter().count() == 1
            && only(header::HOST, &self.address.to_string())
            && only(header::ORIGIN, &format!("http://{}", self.address))
    }

    /// Uses the code up; false if it is another, or was used.
    fn uses(&self, uri: &Uri) -> bool {
        let query = uri.query().unwrap_or_default();
        let Some(shown) = query.strip_prefix("code=") else {
            return false;
        };
        let shown: [u8; 32] = Sha256::digest(shown).into();
        // Digests may be compared in any time: none can be chosen byte by byte.
        self.code.lock().take_if(|code| code.digest == shown).is_some()
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let now = session::now();
        session::shown(headers, &self.cookie).any(|shown| self.key.admits(shown, now))
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

/// Admits a browser that the code gave a session, and of its requests to the API those that the page itself makes.
async fn of_session(State(listener): State<Arc<Sessions>>, request: Request, next: Next) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    if !listener.has_session(headers) {
        return refused(
            path,
            ErrorCode::Unauthorized,
            "this browser has no session",
            AGAIN,
        );
    }
    if path.starts_with("/api/") && !session::is_of_own_page(headers) {
        let message = "the browser does not say that the console itself asks (Sec-Fetch-Site)";
        return refused(path, ErrorCode::Forbidden, message, "use a current browser");
    }
    next.run(request).await
}

async fn open(
    State(listener): State<Arc<Sessions>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    if method == Method::HEAD {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if !listener.uses(&uri) {
        let message = "the code is wrong, or was used";
        return refused(OPEN, ErrorCode::Unauthorized, message, AGAIN);
    }
    let session = listener.key.begin(session::now());
    let cookie = session::give(&listener.cookie, &session, false);
    let mut response = if session::is_of_other_site(&headers) {
        // A strict cookie follows no redirect from another site, but a step that a page of this one makes.
        let refresh = HeaderValue::from_static("0; url=/console");
        (StatusCode::OK, [(header::REFRESH, refresh)]).into_response()
    } else {
        let location = HeaderValue::from_static("/console");
        (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
    };
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response
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
