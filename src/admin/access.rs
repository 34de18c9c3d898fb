//! Admits a request to the paths that tell of tenants (contract: operations.md §2.7).

use super::{Token, attempts::Attempts, origin, reviews::Reviews};
use crate::operations::{Refusal, Target};
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

    /// An error if the request shows no token that admits it.
    pub(super) async fn check(&self, parts: &Parts) -> Result<(), Refusal> {
        if self.token.is_none() && self.reviews.is_none() {
            return Ok(());
        }
        let peer = parts.extensions.get::<Peer>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(address)| *address);
        if !self.attempts.may_try(peer) {
            return Err(Refusal::busy("too many wrong tokens"));
        }
        let shown = parts.headers.get(header::AUTHORIZATION);
        let shown = shown.and_then(|value| value.to_str().ok()).and_then(bearer);
        let Some(shown) = shown else {
            return Err(self.unauthorized("there is no bearer token"));
        };
        let readable = match &self.token {
            None => Ok(()),
            Some(token) => match token.read().await {
                Ok(wanted) if wanted.is(shown) => return Ok(()),
                Ok(_) => Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "the administrative address cannot compare tokens; mend the file");
                    Err(Refusal::unavailable("the token cannot be read, see the log"))
                }
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

    fn unauthorized(&self, message: &str) -> Refusal {
        let next = if self.reviews.is_some() {
            "send the token of --admin-token-file, or one of the hub: Authorization: Bearer <token>"
        } else {
            "send the token of --admin-token-file: Authorization: Bearer <token>"
        };
        Refusal::new(ErrorCode::Unauthorized, message, next)
    }
}

/// The token in a header; the scheme is case-insensitive.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
