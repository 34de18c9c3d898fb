//! Clients of planes: watches share HTTP/2 connections where the server speaks that, every other call has a time limit, and no request is retried.

mod fence;
mod large;
mod members;
mod pool;
mod request;
mod service;
mod transport;

use crate::{
    metrics::{Families, PlaneKind},
    plane::{
        health::{PlaneHealth, host::Host},
        kubeconfig::{Credential, Expiry},
    },
    shared_map::SharedMap,
    watch_channel::{Receiver, Sender},
};
use arc_swap::ArcSwap;
use bytes::Bytes;
pub use fence::Fence;
use http::{Request, Response};
use large::{LargePages, Rooms};
use parking_lot::Mutex;
use pool::Pool;
use service::PlaneService;
use std::{fmt, sync::Arc, time::Duration};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};
use transport::Transport;

pub(super) use large::{LargePage, SmallAnswer};

/// Watches on a replaced credential end after this time, even if they are still being read.
const RETIRE_AFTER: Duration = Duration::from_secs(30);

/// Limits of every client.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limit of a call other than a watch, including the wait for a permit and the reading of the answer; a watch
    /// must have its response headers within this time.
    pub call: Duration,
    /// Time limit for opening a TCP and TLS connection.
    pub connect: Duration,
    /// Interval of pings on a connection with watches, if the server sends nothing else: without pings, a server that
    /// disappears without closing the connection would end no watch.
    pub ping_every: Duration,
    /// Time limit for the answer to a ping.
    pub ping_answer: Duration,
    /// Maximum number of concurrent calls to one plane; watches do not count.
    pub concurrency: usize,
    /// Watches on one HTTP/2 connection: as many streams as an API server allows by default (100, 250 in older ones).
    /// hyper does not expose the limit that a server has announced; a lower limit is detected by unanswered watches.
    pub streams_per_connection: usize,
    /// Maximum size of an answer in bytes: several times the size of an object, and as small as memory requires.
    pub answer_bytes: usize,
}

impl Limits {
    /// Maximum size of a [`SmallAnswer`] in bytes.
    fn small_answer_bytes(&self) -> usize {
        self.answer_bytes / 4
    }

    /// Target size of a page of a list in bytes.
    fn page_bytes(&self) -> usize {
        self.answer_bytes / 8
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            ping_every: Duration::from_secs(15),
            ping_answer: Duration::from_secs(5),
            concurrency: 64,
            streams_per_connection: 100,
            answer_bytes: 16 * 1024 * 1024,
        }
    }
}

/// Reason why a request ended without an answer; the source of a `kube::Error::Service`.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No complete answer within the limit. A write may have been applied.
    #[error("no answer from the {} within {limit:?} to {verb} {resource}; check that its API server is reachable and healthy", .plane.as_str())]
    Timeout {
        /// The kind of plane.
        plane: PlaneKind,
        /// The verb, as in an RBAC role.
        verb: &'static str,
        /// The resource, as in an RBAC role.
        resource: String,
        /// The limit.
        limit: Duration,
        /// Error of the timer.
        source: tokio::time::error::Elapsed,
    },
    /// No connection, or it broke. If it broke after the request was sent, a write may have been applied.
    #[error("no connection to the {}: {cause}", .plane.as_str())]
    Connection {
        /// The kind of plane.
        plane: PlaneKind,
        /// Every cause, outermost first.
        cause: String,
    },
    /// An answer over the size limit.
    #[error("the answer of the {} is larger than {limit} bytes, which are the most that are read", .plane.as_str())]
    TooLarge {
        /// The kind of plane.
        plane: PlaneKind,
        /// The limit in bytes.
        limit: usize,
    },
    /// The plane has answered later requests of other callers, so this request is abandoned.
    #[error("no answer yet, while others are answered; it is asked again")]
    Superseded,
}

/// True if a call ended at its time limit.
pub fn is_timeout(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(e) if matches!(e.downcast_ref(), Some(CallError::Timeout { .. })))
}

/// True if the answer to a request is longer than is read.
pub(super) fn is_too_large(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(e) if matches!(e.downcast_ref(), Some(CallError::TooLarge { .. })))
}

/// Clients for one plane with one credential.
///
/// A `kube::Client` takes 11 KiB, most of it a queue for the requests of its clones, and thousands of planes are idle
/// at a time. So a client is created when it is needed, and none is kept for long.
pub struct PlaneClient {
    make: Box<dyn Fn() -> kube::Client + Send + Sync>,
    kept: Mutex<Option<kube::Client>>,
    retire: Sender<bool>,
    large: LargePages,
    page_bytes: usize,
    fence: Fence,
    expiry: Option<Expiry>,
    host: Arc<Host>,
}

impl fmt::Debug for PlaneClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlaneClient")
    }
}

impl PlaneClient {
    /// Wraps an existing client, for tests with a service of their own.
    pub fn of(client: kube::Client) -> Self {
        Self {
            make: Box::new(move || client.clone()),
            kept: Mutex::default(),
            retire: Sender::new(false),
            large: Rooms::default().of(PlaneKind::Project),
            page_bytes: Limits::default().page_bytes(),
            fence: Fence::default(),
            expiry: None,
            host: Host::new(String::new()),
        }
    }

    /// The host of the plane, which other planes may share.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// The end of the credential, if that is known.
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// Waits for a permit to read a page of a list that may be larger than a [`SmallAnswer`].
    pub(super) async fn large_page(&self) -> Option<LargePage> {
        self.large.place().await
    }

    /// Target size of a page of a list in bytes.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Client for frequent calls; it is kept until [`PlaneClient::release_client`].
    pub fn client(&self) -> kube::Client {
        self.kept.lock().get_or_insert_with(|| (self.make)()).clone()
    }

    /// Client for one request that may be the only one for a long time.
    pub(super) fn one_shot(&self) -> kube::Client {
        self.kept.lock().clone().unwrap_or_else(|| (self.make)())
    }

    /// Drops the kept client until the next call; requests in flight continue.
    pub fn release_client(&self) {
        self.kept.lock().take();
    }
}

/// Creates clients and shares connections between planes with the same address and TLS identity.
#[derive(Clone)]
pub struct Clients {
    limits: Limits,
    metrics: Families,
    rooms: Rooms,
    pools: Arc<SharedMap<[u8; 32], Pool>>,
    hosts: Arc<SharedMap<String, Host>>,
    fence: Fence,
}

impl Clients {
    /// Creates a factory of clients. No connection is opened before the first request.
    pub fn new(limits: Limits, metrics: Families) -> Self {
        Self {
            limits,
            metrics,
            rooms: Rooms::default(),
            pools: Arc::default(),
            hosts: Arc::default(),
            fence: Fence::default(),
        }
    }

    /// Clients for the plane of `credential`.
    pub fn plane(&self, plane: PlaneKind, credential: &Credential) -> PlaneClient {
        let address = address_of(credential.server());
        let host = self.hosts.get(address.clone(), || Host::new(address));
        let way = Transport::network(credential.clone(), self.pool(credential));
        PlaneClient {
            expiry: credential.expiry(),
            ..self.client(plane, way, &credential.namespace, host)
        }
    }

    fn pool(&self, credential: &Credential) -> Arc<Pool> {
        self.pools.get(credential.connection_digest, || {
            Arc::new(Pool::new(credential, self.limits, self.fence.clone()))
        })
    }

    /// Clients for a plane simulated by `service`, with the same limits and metrics: for tests without sockets. Without a
    /// host, the plane has one of its own.
    pub fn plane_of<S, B>(&self, plane: PlaneKind, host: Option<Arc<Host>>, service: S) -> PlaneClient
    where
        S: tower::Service<Request<kube::client::Body>, Response = Response<B>>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service
            .map_response(|response| response.map(transport::received))
            .map_err(Into::into);
        self.client(
            plane,
            Transport::Given(BoxCloneSyncService::new(service)),
            "default",
            host.unwrap_or_else(|| Host::new(String::new())),
        )
    }

    fn client(&self, plane: PlaneKind, way: Transport, namespace: &str, host: Arc<Host>) -> PlaneClient {
        let retire = Sender::new(false);
        let service = PlaneService::new(
            plane,
            way,
            self.rooms.small(plane),
            self.limits,
            self.metrics.clone(),
            retire.subscribe(),
            host.clone(),
        );
        let namespace = namespace.to_owned();
        // The transport sends watches and calls over different connections, so one client serves both.
        PlaneClient {
            make: Box::new(move || kube::Client::new(service.clone(), namespace.clone())),
            kept: Mutex::default(),
            retire,
            large: self.rooms.of(plane),
            page_bytes: self.limits.page_bytes(),
            fence: self.fence.clone(),
            expiry: None,
            host,
        }
    }
}

/// Scheme, name and port of an address.
fn address_of(server: &http::Uri) -> String {
    let (scheme, authority) = (server.scheme_str(), server.authority());
    let authority = authority.map_or("", http::uri::Authority::as_str);
    format!("{}://{authority}", scheme.unwrap_or("https"))
}

/// Connection to one plane; its credential may be replaced while it is in use.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    client: ArcSwap<PlaneClient>,
    generation: Sender<u64>,
    health: Arc<PlaneHealth>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("generation", &self.0.generation.read(|n| n))
            .finish()
    }
}

impl Connection {
    /// A connection with generation 0.
    pub fn new(client: PlaneClient) -> Self {
        Self(Arc::new(Inner {
            client: ArcSwap::from_pointee(client),
            generation: Sender::new(0),
            health: Arc::default(),
        }))
    }

    /// A connection over an existing client, for tests with a service of their own.
    pub fn of_client(client: kube::Client) -> Self {
        Self::new(PlaneClient::of(client))
    }

    /// Client with the current credential. Keep it for one call only.
    pub fn current(&self) -> Arc<PlaneClient> {
        self.0.client.load_full()
    }

    /// Number that increases with each replaced credential: watches restart, and rejected calls are repeated.
    pub fn generation(&self) -> Receiver<u64> {
        self.0.generation.subscribe()
    }

    /// Fence that blocks the connections of this process once its write permit has expired.
    pub fn fence(&self) -> Fence {
        self.0.client.load().fence.clone()
    }

    /// Health of the plane, shared by all its callers.
    pub fn health(&self) -> &Arc<PlaneHealth> {
        &self.0.health
    }

    /// Switches to another credential. Watches on the old one end within 30 s; its connections close when idle.
    pub fn replace(&self, client: PlaneClient) {
        let old = self.0.client.swap(Arc::new(client));
        self.0.generation.send_if_modified(|g| {
            *g += 1;
            true
        });
        tokio::spawn(async move {
            tokio::time::sleep(RETIRE_AFTER).await;
            old.retire.send(true);
        });
    }
}

#[cfg(test)]
mod tests;
