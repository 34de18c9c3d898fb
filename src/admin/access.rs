//! Admits a request to the paths that tell of tenants (contract: operations.md §2.7).

use super::{Token, attempts::Attempts, console::SESSION, origin, reviews::Reviews, token::Wanted};
use crate::{
    console::session,
    operations::{Refusal, Target},
};
use axum::http::{header, request::Parts};
use fedgate_operations::ErrorCode;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Address of the requester, as the connection has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Which requests are admitted.
pub(super) struct Access {
    /// The bound address.
    pub(super) address: SocketAddr,
    /// The token of the file.
    pub(super) token: Option<Token>,
    /// The hub's reviews of other tokens.
    pub(super) reviews: Option<Reviews>,
    /// True if the address serves TLS.
    pub(super) is_tls: bool,
    attempts: Attempts,
}

/// The permission that a request needs: a resource, and the project that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) resource: &'static str,
    pub(super) project: String,
}

impl Right {
    /// The permission of a path; `None` for a path that does not exist.
    fn of(parts: &Parts) -> Result<Option<Self>, Refusal> {
        let of_all = |resource| Right {
            resource,
            project: String::new(),
        };
        match parts.uri.path() {
            "/metrics" => return Ok(Some(of_all("metrics"))),
            "/debug/planes" => return Ok(Some(of_all("planes"))),
            _ => {}
        }
        let target = Target::of(parts.uri.path())?;
        Ok(target.map(|target| Self {
            resource: target.route.resource(),
            project: target
                .project(parts.uri.query().unwrap_or_default())
                .unwrap_or_default(),
        }))
    }
}

impl Access {
    /// Access by this token, and by the hub's reviews.
    pub(super) fn new(address: SocketAddr, token: Option<Token>, reviews: Option<Reviews>) -> Self {
        Self {
            address,
            token,
            reviews,
            is_tls: false,
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

    /// An error if the request shows neither a token nor a session that admits it.
    pub(super) async fn check(&self, parts: &Parts) -> Result<(), Refusal> {
        if self.token.is_none() && self.reviews.is_none() {
            return Ok(());
        }
        let peer = self.may_try(parts)?;
        if !parts.headers.contains_key(header::AUTHORIZATION)
            && let Some(token) = &self.token
            && session::shown(&parts.headers, SESSION).next().is_some()
        {
            return check_session(parts, &wanted(token).await?);
        }
        let shown = self.shown(parts)?;
        let readable = match &self.token {
            None => Ok(()),
            Some(token) => match wanted(token).await {
                Ok(wanted) if wanted.is(shown) => return Ok(()),
                Ok(_) => Ok(()),
                Err(refusal) => Err(refusal),
            },
        };
        let admitted = match &self.reviews {
            None => readable.and_then(|()| Err(self.unauthorized("the token is wrong"))),
            Some(reviews) => match Right::of(parts) {
                Ok(right) => reviews.admit(shown, right).await,
                Err(refusal) => Err(refusal),
            },
        };
        if admitted
            .as_ref()
            .is_err_and(|refusal| refusal.code == ErrorCode::Unauthorized)
        {
            self.attempts.wrong(peer);
        }
        admitted
    }

    /// Begins a session for the token of the file; `None` if the address needs no token. A token that the hub reviews gets
    /// none: the hub may take its rights back within a minute, and a session would last.
    pub(super) async fn sign_in(&self, parts: &Parts) -> Result<Option<String>, Refusal> {
        if self.token.is_none() && self.reviews.is_none() {
            return Ok(None);
        }
        let peer = self.may_try(parts)?;
        let shown = self.shown(parts)?;
        if let Some(token) = &self.token {
            let wanted = wanted(token).await?;
            if wanted.is(shown) {
                return Ok(Some(wanted.sessions().begin(session::now())));
            }
        }
        self.attempts.wrong(peer);
        Err(match &self.reviews {
            None => self.unauthorized("the token is wrong"),
            Some(_) => Refusal::new(
                ErrorCode::Forbidden,
                "a session is for the token of --admin-token-file alone, and this is another",
                "with a token of the hub: fedgate console --admin-auth=hub",
            ),
        })
    }

    /// The requester's address; an error if it has shown too many wrong tokens.
    fn may_try(&self, parts: &Parts) -> Result<IpAddr, Refusal> {
        let peer = parts.extensions.get::<Peer>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(address)| *address);
        if self.attempts.may_try(peer) {
            Ok(peer)
        } else {
            Err(Refusal::busy("too many wrong tokens"))
        }
    }

    /// The token that the request shows.
    fn shown<'a>(&self, parts: &'a Parts) -> Result<&'a str, Refusal> {
        let shown = parts.headers.get(header::AUTHORIZATION);
        let shown = shown.and_then(|value| value.to_str().ok()).and_then(bearer);
        shown.ok_or_else(|| self.unauthorized("there is no bearer token"))
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

/// The token of the file.
async fn wanted(token: &Token) -> Result<Wanted, Refusal> {
    token.read().await.map_err(|error| {
        tracing::warn!(%error, "the administrative address cannot compare tokens; mend the file");
        Refusal::unavailable("the token cannot be read, see the log")
    })
}

/// An error if no session of the request is one of this token, or a page of another origin sends it.
fn check_session(parts: &Parts, wanted: &Wanted) -> Result<(), Refusal> {
    let (sessions, now) = (wanted.sessions(), session::now());
    let mut shown = session::shown(&parts.headers, SESSION);
    if !shown.any(|shown| sessions.admits(shown, now)) {
        return Err(Refusal::new(
            ErrorCode::Unauthorized,
            "the session has ended",
            "sign in at /console with the token of --admin-token-file",
        ));
    }
    if session::is_of_own_page(&parts.headers) {
        return Ok(());
    }
    Err(Refusal::new(
        ErrorCode::Forbidden,
        "the browser does not say that the console itself asks (Sec-Fetch-Site)",
        "open the console by https or localhost, where browsers say so, or by fedgate console",
    ))
}

/// The token in a header; the scheme is case-insensitive.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
