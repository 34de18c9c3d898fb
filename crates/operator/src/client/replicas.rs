//! The replicas, and the requests to them: one address, or the Pods of the host (contract: operations.md §3.1).

use super::{
    answer::{Answer, LARGEST},
    credential::Credential,
    events::{Body, Events},
    failure, forward,
    host::Host,
};
use crate::client::args::WayArgs;
use bytes::Bytes;
use fedgate_terminal::{
    error::{Error, Kind},
    write::say,
};
use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use http::{
    Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, RETRY_AFTER},
};
use http_body_util::{BodyExt, Collected, Limited};
use kube::{Client, Config};
use std::{fmt, sync::Arc, time::Duration};
use tower::BoxError;

/// A replica that can be asked.
#[derive(Clone)]
pub(super) enum Address {
    /// A URL, and the client for it.
    Server(Client, String),
    /// A Pod of the host.
    Pod(Arc<Host>, PodPort),
}

/// The administrative port of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodPort {
    /// The Pod's namespace.
    pub(super) namespace: String,
    /// Name of the Pod.
    pub(super) pod: String,
    /// The port.
    pub(super) port: u16,
}

impl Address {
    fn send(&self, request: http::Request<()>) -> BoxFuture<'_, Result<Response<Body>, Error>> {
        let sent = async move {
            match self {
                Self::Server(client, _) => {
                    let sent = client.send(request.map(|()| kube::client::Body::empty())).await;
                    let response = sent.map_err(|error| failure::unreachable(self, &error))?;
                    Ok(response.map(boxed))
                }
                Self::Pod(host, pod) => forward::send(host, pod, request)
                    .await
                    .map(|sent| sent.map(boxed)),
            }
        };
        sent.boxed()
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server(_, one), Self::Server(_, other)) => one == other,
            (Self::Pod(_, one), Self::Pod(_, other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(_, url) => f.write_str(url),
            Self::Pod(_, PodPort { namespace, pod, .. }) => write!(f, "Pod {namespace}/{pod}"),
        }
    }
}

/// The replicas of a gateway or cell.
pub(super) struct Replicas {
    route: Route,
    credential: Option<Credential>,
    timeout: Duration,
    /// The replica that led when it was asked last.
    leader: Option<Address>,
    /// True once it was said that no replica leads.
    is_noted: bool,
}

enum Route {
    Server(Address),
    Host(Arc<Host>),
}

impl Replicas {
    /// The replicas that the flags choose.
    pub(super) async fn open(args: &WayArgs, cell: bool) -> Result<Self, Error> {
        let (route, host) = if let Some(url) = &args.server {
            (server(url, args.timeout)?, None)
        } else {
            let host = Arc::new(Host::open(args, cell).await?);
            (Route::Host(Arc::clone(&host)), Some(host))
        };
        let credential = Credential::read(args, host.as_ref()).await?;
        Ok(Self {
            route,
            credential,
            timeout: args.timeout,
            leader: None,
            is_noted: false,
        })
    }

    /// Asks the replica that leads; without one, the standby whose answer is the freshest. A path begins with a slash and
    /// continues `/api/v1`.
    pub(super) async fn ask(&mut self, path: &str) -> Result<Answer, Error> {
        if let Some(leader) = self.leader.take()
            && let Ok(answer) = self.ask_at(&leader, path).await
            && answer.is_leader()
        {
            self.leader = Some(leader);
            return Ok(answer);
        }
        let answer = self.best(path).await?;
        if answer.is_leader() {
            self.leader = Some(answer.address.clone());
            self.is_noted = false;
        } else if !std::mem::replace(&mut self.is_noted, true) {
            let (address, leader) = (&answer.address, &answer.header.replica.leader);
            let leader = leader.as_deref().unwrap_or("no replica");
            say(&format!(
                "{address} answers, a standby: it knows no failures and no writes ({leader} leads)"
            ));
        }
        Ok(answer)
    }

    /// Asks the replicas in turn until one leads; without one, the answer of the standby whose answer is the freshest.
    pub(super) async fn best(&self, path: &str) -> Result<Answer, Error> {
        let mut best: Result<Option<Answer>, Error> = Ok(None);
        for address in self.addresses().await? {
            match self.ask_at(&address, path).await {
                Ok(answer) if answer.is_leader() => return Ok(answer),
                Ok(answer) => best = Ok(Some(fresher(best.ok().flatten(), answer))),
                Err(error) => best = worse(best, error),
            }
        }
        best?.ok_or_else(|| Error::new(Kind::Failed, "no replica answers"))
    }

    /// Asks every running replica; empty if none runs.
    pub(super) async fn ask_each(&self, path: &str) -> Result<Vec<(Address, Result<Answer, Error>)>, Error> {
        let addresses = match &self.route {
            Route::Server(address) => vec![address.clone()],
            Route::Host(host) => {
                let (pods, _) = host.running().await?;
                let pod = |pod| Address::Pod(Arc::clone(host), pod);
                pods.into_iter().map(pod).collect()
            }
        };
        let asked = addresses.into_iter().map(async |address| {
            let answer = self.ask_at(&address, path).await;
            (address, answer)
        });
        Ok(join_all(asked).await)
    }

    /// The one address of `--server`, whatever answers there.
    pub(super) fn server(&self) -> Option<&Address> {
        match &self.route {
            Route::Server(address) => Some(address),
            Route::Host(_) => None,
        }
    }

    /// The time limit of a request.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// True if requests have a credential.
    pub(super) fn has_credential(&self) -> bool {
        self.credential.is_some()
    }

    async fn addresses(&self) -> Result<Vec<Address>, Error> {
        match &self.route {
            Route::Server(address) => Ok(vec![address.clone()]),
            Route::Host(host) => {
                let pods = host.replicas().await?.into_iter();
                Ok(pods.map(|pod| Address::Pod(Arc::clone(host), pod)).collect())
            }
        }
    }

    /// Asks a replica.
    pub(super) async fn ask_at(&self, address: &Address, path: &str) -> Result<Answer, Error> {
        let read = async {
            let response = self.get(address, path, "application/json").await?;
            let body = whole(response.into_body()).await;
            let body = body.map_err(|error| failure::unreachable(address, error.as_ref()))?;
            Answer::read(address.clone(), String::from_utf8_lossy(&body).into_owned())
        };
        let answer = tokio::time::timeout(self.timeout, read).await;
        answer.unwrap_or_else(|_| Err(failure::late(address, self.timeout)))
    }

    /// Opens a replica's stream of events. Only its beginning has the time limit of a request.
    pub(super) async fn events(&self, address: &Address, topics: &str) -> Result<Events, Error> {
        let path = format!("/events?{topics}");
        let begun = tokio::time::timeout(self.timeout, self.get(address, &path, "text/event-stream")).await;
        let response = begun.unwrap_or_else(|_| Err(failure::late(address, self.timeout)))?;
        Ok(Events::of(response.into_body()))
    }

    async fn get(
        &self,
        address: &Address,
        path: &str,
        accept: &'static str,
    ) -> Result<Response<Body>, Error> {
        let request = http::Request::get(format!("/api/v1{path}")).header(ACCEPT, accept);
        let response = self.send(address, request).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let retry_after = retry_after.map(str::to_owned);
        let body = whole(response.into_body()).await;
        let body = body
            .map(|body| String::from_utf8_lossy(&body).into_owned())
            .unwrap_or_default();
        Err(failure::refused(
            address,
            status,
            retry_after.as_deref(),
            &body,
            self.has_credential(),
        ))
    }

    /// Sends a request to a replica, with the credential; once more if that is refused and its source has another by now.
    pub(super) fn send<'a>(
        &'a self,
        address: &'a Address,
        request: http::request::Builder,
    ) -> BoxFuture<'a, Result<Response<Body>, Error>> {
        let sent = async move {
            let request = request.body(());
            let mut request = request.map_err(|error| failure::unreachable(address, &error))?;
            let Some(credential) = &self.credential else {
                return address.send(request).await;
            };
            let shown = credential.last().await;
            request.headers_mut().insert(AUTHORIZATION, shown.clone());
            let response = address.send(request.clone()).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            let Some(newer) = credential.after(&shown).await? else {
                return Ok(response);
            };
            request.headers_mut().insert(AUTHORIZATION, newer);
            address.send(request).await
        };
        sent.boxed()
    }
}

/// The bytes of an answer that is no stream.
pub(super) fn whole(body: Body) -> BoxFuture<'static, Result<Bytes, BoxError>> {
    let whole = Limited::new(body, LARGEST).collect();
    whole.map(|body| body.map(Collected::to_bytes)).boxed()
}

fn boxed<B>(body: B) -> Body
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}

/// The client of a URL. kube's client has the TLS and the limits that any HTTP server needs.
fn server(url: &http::Uri, timeout: Duration) -> Result<Route, Error> {
    let wrong = |cause: String| Error::usage(format!("--server {url}: {cause}"));
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none() {
        return Err(wrong("it must be a URL, e.g. http://localhost:8080".to_owned()));
    }
    let mut config = Config::new(url.clone());
    config.read_timeout = None;
    config.connect_timeout = Some(timeout);
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|error| wrong(error.to_string()))?;
    let url = url.to_string().trim_end_matches('/').to_owned();
    Ok(Route::Server(Address::Server(client, url)))
}

/// The better answer of two standbys: complete ones come before incomplete ones, then the latest.
fn fresher(one: Option<Answer>, other: Answer) -> Answer {
    let rank = |answer: &Answer| (answer.header.complete, answer.header.as_of);
    match one {
        Some(one) if rank(&one) >= rank(&other) => one,
        _ => other,
    }
}

/// The result after a further replica has failed: an answer stays, and so does the first error, unless a replica knows the
/// API and only lacks the object.
fn worse(best: Result<Option<Answer>, Error>, error: Error) -> Result<Option<Answer>, Error> {
    match best {
        Ok(None) => Err(error),
        Err(first) if first.kind == Kind::Failed && error.kind == Kind::NotFound => Err(error),
        best => best,
    }
}
