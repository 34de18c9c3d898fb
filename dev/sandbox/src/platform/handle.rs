//! Handling of a request: its user, the refusals of the stand-in, and the answer of the API server behind the path.

use super::{
    refusal,
    route::{self, Route},
    switches::Switches,
    upstreams::Upstreams,
};
use crate::front::{
    identity::{self, Identity},
    pass,
    refusal::unauthorized,
    serve::{Answer, Caller},
    upstream::{Forwarder, Upstream},
};
use http::{Method, Request, header, uri::Authority};
use hyper::body::Incoming;
use serde_json::Value;
use std::sync::Arc;

/// Answers requests.
pub(super) struct Handler {
    pub(super) upstreams: Arc<Upstreams>,
    pub(super) switches: Arc<Switches>,
    pub(super) forwarder: Forwarder,
}

impl Handler {
    /// Answers a request. Dropping the future, or the body of the answer, ends the request at the API server too.
    pub(super) async fn answer(&self, caller: &Caller, request: Request<Incoming>) -> Result<Answer, Answer> {
        let user = match (caller, identity::token(request.headers())) {
            (Caller::User(user), _) => Some(user.clone()),
            (_, Some(token)) => identity::of_token(&self.upstreams.core.client, token).await,
            (_, None) => None,
        };
        let user = user.ok_or_else(unauthorized)?;
        let (mut head, body) = request.into_parts();
        // The path names the project, or inside the infrastructure cluster the host.
        let (uri, host) = (head.uri.clone(), host(&head));
        let of_host = host.as_deref().and_then(route::project_of_host);
        let Route { project, path } = match of_host {
            Some(name) => Route {
                project: Some(name),
                path: uri.path(),
            },
            None => route::route(uri.path()),
        };
        let upstream = self.upstreams.of(project);
        if let Some(name) = project {
            self.faults(name, path).await?;
        }
        let (path, query) = match project {
            Some(name) if !self.upstreams.is_milo() => {
                self.admit(name, &user, &head.method, path, upstream).await?;
                (path.to_owned(), route::query(path, uri.query()))
            }
            // Milo's own API server knows projects by their paths alone.
            _ => {
                let project = of_host.map(super::path).unwrap_or_default();
                let path = format!("{project}{}", uri.path());
                (path, uri.query().map(str::to_owned))
            }
        };
        let path = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
        if !user.put(&mut head.headers) {
            return Err(unauthorized());
        }
        pass::on(&self.forwarder, &upstream.authority, &path, (head, body)).await
    }

    /// Applies the faults that the project's switches ask for.
    async fn faults(&self, name: &str, path: &str) -> Result<(), Answer> {
        self.switches.answers(name).await;
        if is_storage(path) && self.switches.initializes(name) {
            return Err(refusal::initializing());
        }
        Ok(())
    }

    /// Applies Milo's own rules to a request before it reaches the project.
    async fn admit(
        &self,
        name: &str,
        user: &Identity,
        method: &Method,
        path: &str,
        upstream: &Upstream,
    ) -> Result<(), Answer> {
        if let Some(namespace) = route::hidden(path) {
            return Err(refusal::no_namespace(namespace));
        }
        let is_write = [Method::POST, Method::PUT, Method::PATCH].contains(method);
        if is_write
            && !user.is_master()
            && self.switches.is_suspended(name)
            && !route::is_review(path)
            && !is_terminating(upstream, method, path).await
        {
            return Err(refusal::suspended(name));
        }
        Ok(())
    }
}

/// The host that was asked for: in HTTP/2 it is part of the address, in HTTP/1.1 a header.
fn host(head: &http::request::Parts) -> Option<String> {
    let header = || {
        head.headers
            .get(header::HOST)?
            .to_str()
            .ok()?
            .parse::<Authority>()
            .ok()
    };
    let authority = head.uri.authority().cloned().or_else(header);
    authority.map(|authority| authority.host().to_owned())
}

/// Whether the path names objects, rather than discovery or health.
fn is_storage(path: &str) -> bool {
    let parts = path.split('/').filter(|part| !part.is_empty()).count();
    (path.starts_with("/api/") && parts > 2) || (path.starts_with("/apis/") && parts > 3)
}

/// Whether the request changes an object that is being deleted.
async fn is_terminating(upstream: &Upstream, method: &Method, path: &str) -> bool {
    if *method == Method::POST {
        return false;
    }
    let Some(Ok(request)) = route::object(path).map(|path| Request::get(path).body(Vec::new())) else {
        return false;
    };
    let object: kube::Result<Value> = upstream.client.request(request).await;
    object.is_ok_and(|object| object["metadata"]["deletionTimestamp"].is_string())
}
