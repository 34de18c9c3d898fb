//! The requests of one connection: to a member by the proxy, or on to the hub's API server.

use super::{hub::Hub, member, path::through};
use crate::front::{
    identity, pass,
    refusal::{Refusal, failure, unauthorized},
    serve::{Answers, Caller},
    upstream::Forwarder,
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use serde_json::json;
use std::{error::Error, sync::Arc};

/// The body of an answer: the hub's as it comes, or another.
type Body = Either<Incoming, UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>>;

/// Answers the requests of one connection. It has connections of its own to the hub's API server, so that clients hold each
/// other up no more than without the front.
pub(super) struct Connection {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    /// As the front proxy for a user, as nobody where each request says itself who asks.
    pub(super) forwarder: Forwarder,
}

impl Answers for Connection {
    type Body = Body;

    /// Dropping the future, or the body of the answer, ends the request behind the front too.
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let answer = match through(&path) {
            Some((cluster, path)) => self.proxied(cluster, path, request).await,
            None => self.passed(request).await,
        };
        answer.unwrap_or_else(|refusal| {
            refusal.map(|body| Either::Right(body.map_err(|never| match never {}).boxed_unsync()))
        })
    }
}

impl Connection {
    async fn passed(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (mut head, body) = request.into_parts();
        match &self.caller {
            Caller::User(user) if !user.put(&mut head.headers) => return Err(unauthorized()),
            Caller::Unproven if identity::token(&head.headers).is_none() => return Err(unauthorized()),
            _ => {}
        }
        let path = head.uri.path_and_query();
        let path = path.map_or("/", |path| path.as_str()).to_owned();
        let answer = pass::on(&self.forwarder, &self.hub.server.authority, &path, (head, body)).await?;
        Ok(answer.map(Either::Left))
    }

    async fn proxied(
        &self,
        cluster: &str,
        path: &str,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        if member::plays(request.headers()) {
            let words =
                "the stand-in's proxy of Clusters acts for its caller alone, without Impersonate headers";
            return Err(failure(StatusCode::BAD_REQUEST, "BadRequest", words, &json!({})));
        }
        let user = self.hub.user(&self.caller, request.headers()).await?;
        self.hub.admit(&user, request.method(), cluster).await?;
        let member = self.hub.member(cluster).await?;
        let answer = member::ask(member, &user, path, request).await?;
        Ok(answer.map(|body| Either::Right(body.map_err(Into::into).boxed_unsync())))
    }
}
