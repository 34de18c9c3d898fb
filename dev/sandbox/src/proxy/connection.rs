//! The requests of one connection: to a member by the proxy, or on to the hub's API server.

use super::{hub::Hub, member, path::through};
use crate::front::{
    identity::token,
    pass,
    refusal::{failure, unauthorized},
    serve::{Answer, Caller},
    upstream::Forwarder,
};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use std::{convert::identity, sync::Arc};

/// Answers the requests of one connection. It has connections of its own to the hub's API server, so that clients hold each
/// other up no more than without the front.
pub(super) struct Connection {
    pub(super) hub: Arc<Hub>,
    pub(super) caller: Caller,
    /// As the front proxy for a user, as nobody where each request says itself who asks.
    pub(super) forwarder: Forwarder,
}

impl Connection {
    /// Answers a request. Dropping the future, or the body of the answer, ends the request behind the front too.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let answer = match through(&path) {
            Some((cluster, path)) => self.proxied(cluster, path, request).await,
            None => self.passed(request).await,
        };
        answer.unwrap_or_else(identity)
    }

    async fn passed(&self, request: Request<Incoming>) -> Result<Answer, Answer> {
        let (mut head, body) = request.into_parts();
        match &self.caller {
            Caller::User(user) if !user.put(&mut head.headers) => return Err(unauthorized()),
            Caller::Unproven if token(&head.headers).is_none() => return Err(unauthorized()),
            _ => {}
        }
        let path = head.uri.path_and_query();
        let path = path.map_or("/", |path| path.as_str()).to_owned();
        pass::on(&self.forwarder, &self.hub.server.authority, &path, (head, body)).await
    }

    async fn proxied(&self, cluster: &str, path: &str, request: Request<Incoming>) -> Result<Answer, Answer> {
        if member::plays(request.headers()) {
            let words =
                "the stand-in's proxy of Clusters acts for its caller alone, without Impersonate headers";
            return Err(failure(StatusCode::BAD_REQUEST, "BadRequest", words, &json!({})));
        }
        let user = self.hub.user(&self.caller, request.headers()).await?;
        self.hub.admit(&user, request.method(), cluster).await?;
        let member = self.hub.member(cluster).await?;
        member::ask(member, &user, path, request).await
    }
}
