//! Admits a request to the paths that tell of tenants (contract: operations.md §2.7).

use super::{
    Token,
    attempts::Attempts,
    origin,
    reviews::{Reviews, Right},
    token::Wanted,
};
use crate::api::{Refusal, User};
use crate::console::session::{self, SESSION, credential};
use axum::{
    extract::{Request, State},
    http::request::Parts,
    middleware::Next,
    response::{IntoResponse, Response},
};
use fedgate_operations::ErrorCode;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Interval at which the rights of an open stream are checked.
const CHECK: Duration = Duration::from_secs(10);

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Address of the peer, as the connection has it.
    pub(super) address: IpAddr,
    is_admitted: Arc<AtomicBool>,
}

impl Peer {
    /// The other end at this address. It has shown no token yet.
    pub(super) fn at(address: IpAddr) -> Self {
        Self {
            address,
            is_admitted: Arc::default(),
        }
    }

    /// True if a request of this connection was admitted.
    pub(super) fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Relaxed)
    }

    /// Remembers that a request of this connection was admitted.
    pub(super) fn admit(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }
}

/// Which requests are admitted.
pub(super) struct Access {
    /// The bound address.
    pub(super) address: SocketAddr,
    /// The token of the file.
    pub(super) token: Option<Token>,
    /// The hub's reviews of other tokens.
    pub(super) reviews: Option<Reviews>,
    attempts: Attempts,
}

impl Access {
    /// Access by this token, and by the hub's reviews.
    pub(super) fn new(address: SocketAddr, token: Option<Token>, reviews: Option<Reviews>) -> Self {
        Self {
            address,
            token,
            reviews,
            attempts: Attempts::default(),
        }
    }

    /// An error if the request was made under another name than those of an address without a token.
    pub(super) fn check_origin(&self, parts: &Parts) -> Result<(), Refusal> {
        if self.token.is_some() || self.reviews.is_some() {
            return Ok(());
        }
        origin::check(&parts.headers, self.address)
    }

    /// The user whom the hub named, if it was the hub that admitted the request; an error if the request shows neither a token
    /// nor a session that admits it.
    pub(super) async fn check(&self, parts: &Parts) -> Result<Option<User>, Refusal> {
        if self.token.is_none() && self.reviews.is_none() {
            return Ok(None);
        }
        if let (Some(token), Some(shown)) = (&self.token, credential(parts, SESSION)) {
            return check_session(shown, &wanted(token).await?).map(|()| None);
        }
        let (address, shown) = (address(parts), self.shown(parts)?);
        let mut reviews = self.reviews.iter();
        if !reviews.any(|reviews| reviews.has_confirmed(shown)) {
            self.may_try(address)?;
        }
        let is_own = match &self.token {
            None => Ok(false),
            Some(token) => wanted(token).await.map(|wanted| wanted.is(shown)),
        };
        if matches!(is_own, Ok(true)) {
            return Ok(None);
        }
        let admitted = match &self.reviews {
            None => is_own.and_then(|_| Err(self.unauthorized("the token is wrong"))),
            Some(reviews) => match Right::of(parts).await {
                Ok(right) => reviews.admit(address, shown, right).await.map(Some),
                Err(refusal) => Err(refusal),
            },
        };
        let is_unauthorized = |refusal: &Refusal| refusal.code == ErrorCode::Unauthorized;
        if admitted.as_ref().is_err_and(is_unauthorized) {
            self.attempts.wrong(address);
        }
        admitted
    }

    /// Returns when a request like this one, which was admitted, no longer is.
    pub(super) async fn refuses(&self, parts: &Parts) {
        loop {
            tokio::time::sleep(CHECK).await;
            let checked = self.check(parts).await;
            if checked.is_err_and(|refusal| refusal.code != ErrorCode::Busy) {
                return;
            }
        }
    }

    /// Begins a session for the token of the file; `None` if the address needs no token. A token that the hub reviews gets
    /// none: the hub may take its rights back within a minute, and a session would last.
    pub(super) async fn sign_in(&self, parts: &Parts) -> Result<Option<String>, Refusal> {
        if self.token.is_none() && self.reviews.is_none() {
            return Ok(None);
        }
        let address = address(parts);
        self.may_try(address)?;
        let shown = self.shown(parts)?;
        if let Some(token) = &self.token {
            let wanted = wanted(token).await?;
            if wanted.is(shown) {
                return Ok(Some(wanted.sessions().begin(session::now())));
            }
        }
        self.attempts.wrong(address);
        Err(match &self.reviews {
            None => self.unauthorized("the token is wrong"),
            Some(_) => Refusal::new(
                ErrorCode::Forbidden,
                "a session is for the token of --admin-token-file alone, and this is another",
                "with a token of the hub: fedgate console --admin-auth=hub",
            ),
        })
    }

    /// An error if the address has shown too many wrong tokens.
    fn may_try(&self, address: IpAddr) -> Result<(), Refusal> {
        if self.attempts.may_try(address) {
            Ok(())
        } else {
            Err(Refusal::busy("too many wrong tokens"))
        }
    }

    /// The token that the request shows.
    fn shown<'a>(&self, parts: &'a Parts) -> Result<&'a str, Refusal> {
        credential(parts, "bearer").ok_or_else(|| self.unauthorized("there is no bearer token"))
    }

    fn unauthorized(&self, message: &str) -> Refusal {
        let next = if self.reviews.is_some() {
            "send the token of --admin-token-file, or one of the hub: Authorization: Bearer <token>"
        } else {
            "send the token of --admin-token-file: Authorization: Bearer <token>"
        };
        Refusal::new(ErrorCode::Unauthorized, message, next)
    }
}

/// A request that reached the address under a foreign name is refused, whatever it asks.
pub(super) async fn under_own_name(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    match access.check_origin(&parts) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// The token of the file.
async fn wanted(token: &Token) -> Result<Wanted, Refusal> {
    token.read().await.map_err(|error| {
        tracing::warn!(%error, "the administrative address cannot compare tokens; correct the file");
        Refusal::unavailable("the token cannot be read, see the log")
    })
}

/// An error if this is no session of the token.
fn check_session(shown: &str, wanted: &Wanted) -> Result<(), Refusal> {
    if wanted.sessions().admits(shown, session::now()) {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::Unauthorized,
        "the session has ended",
        "sign in at /console with the token of --admin-token-file",
    ))
}

/// The requester's address.
fn address(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<Peer>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address)
}
