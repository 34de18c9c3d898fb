//! Clients of planes: watches over shared HTTP/2 connections, every other call bounded in time, nothing retried.

mod fence;
mod large;
mod pool;
mod request;
mod service;
mod way;

use crate::{
    engine::{
        chance::HashMap,
        told::{Listener, Told},
    },
    metrics::{ClientMetrics, PlaneKind},
    plane::{kubeconfig::Credential, watch::reach::Reach},
};
use arc_swap::ArcSwap;
use bytes::Bytes;
pub use fence::Fence;
use http::{Request, Response};
use large::{LargePages, Rooms};
use parking_lot::Mutex;
use pool::Pool;
use service::PlaneService;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};
use way::Way;

pub(super) use large::{LargePage, SmallAnswer};

/// After this time the watches on a replaced credential are ended, whoever reads them.
const RETIRE_AFTER: Duration = Duration::from_secs(30);

/// Limits of every client.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A call that is no watch ends after this time, waiting for a place and reading the answer included; a watch must
    /// have its headers by then.
    pub call: Duration,
    /// A TCP and TLS connection must be open after this time.
    pub connect: Duration,
    /// The server of a connection with watches must show that it lives this often, by a ping if it says nothing else:
    /// whoever vanishes without an end ends no watch.
    pub ping_every: Duration,
    /// A ping must be answered after this time.
    pub ping_answer: Duration,
    /// Calls that one plane may have under way at once; watches do not count.
    pub concurrency: usize,
    /// Watches on one HTTP/2 connection: as many streams as an API server allows by default (100, 250 in older ones).
    /// hyper tells nobody what a server has announced; one that allows fewer is found out.
    pub streams_per_connection: usize,
    /// Bytes that one answer may have: several times as many as an object, and as few as memory has room for.
    pub answer_bytes: usize,
}

impl Limits {
    /// Bytes that a [`SmallAnswer`] may have.
    fn small_answer_bytes(&self) -> usize {
        self.answer_bytes / 4
    }

    /// Bytes that a page of a list should have.
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

/// Why a request ended without an answer; the source of a `kube::Error::Service`.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No complete answer within the limit. A write may have been applied.
    #[error("no answer from the {} within {limit:?} to {verb} {resource}; check that its API server is reachable and healthy", .plane.as_str())]
    Timeout {
        /// The kind of plane.
        plane: PlaneKind,
        /// The verb, as in a role.
        verb: &'static str,
        /// The resource, as in a role.
        resource: String,
        /// The limit.
        limit: Duration,
        /// The timer's own word.
        source: tokio::time::error::Elapsed,
    },
    /// No connection, or it broke. A write may have been applied if it broke later.
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
    /// The credential was replaced; the watch goes on with the new one.
    #[error("the credential of this connection was replaced; watch again with the current one")]
    Retired,
    /// The plane has answered others who asked later.
    #[error("no answer yet, while others are answered; it is asked again")]
    Overtaken,
}

/// Whether a call ended because its time was over.
pub fn is_timeout(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(e) if matches!(e.downcast_ref(), Some(CallError::Timeout { .. })))
}

/// The way to one plane with one credential.
///
/// A `kube::Client` takes 11 KiB, most of it a queue for the requests of its clones, and thousands of planes are at rest at
/// a time. So each is made when it is needed, and none is kept for long.
pub struct PlaneClient {
    make: Box<dyn Fn() -> kube::Client + Send + Sync>,
    kept: Mutex<Option<kube::Client>>,
    retire: Told<bool>,
    large: LargePages,
    page_bytes: usize,
    fence: Fence,
}

impl PlaneClient {
    /// A client over one that is there already, for tests with a service of their own.
    pub fn of(client: kube::Client) -> Self {
        Self {
            make: Box::new(move || client.clone()),
            kept: Mutex::default(),
            retire: Told::new(false),
            large: Rooms::default().of(PlaneKind::Project),
            page_bytes: Limits::default().page_bytes(),
            fence: Fence::default(),
        }
    }

    /// A place for a page of a list that may have more bytes than a [`SmallAnswer`]; waits for one.
    pub(super) async fn large_page(&self) -> Option<LargePage> {
        self.large.place().await
    }

    /// Bytes that a page of a list should have.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// For whoever asks often; it is kept until [`PlaneClient::rest`].
    pub fn client(&self) -> kube::Client {
        self.kept.lock().get_or_insert_with(|| (self.make)()).clone()
    }

    /// For one request that may be the only one for long.
    pub(super) fn for_once(&self) -> kube::Client {
        self.kept.lock().clone().unwrap_or_else(|| (self.make)())
    }

    /// Keeps nothing until the next request; those under way go on.
    pub fn rest(&self) {
        self.kept.lock().take();
    }
}

impl fmt::Debug for PlaneClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlaneClient")
    }
}

/// Makes clients and shares connections between planes with the same address and TLS identity.
#[derive(Clone)]
pub struct Clients {
    limits: Limits,
    metrics: ClientMetrics,
    rooms: Rooms,
    pools: Arc<Mutex<HashMap<[u8; 32], Weak<Pool>>>>,
    fence: Fence,
}

impl Clients {
    /// No connection is opened before the first request.
    pub fn new(limits: Limits, metrics: ClientMetrics) -> Self {
        Self {
            limits,
            metrics,
            rooms: Rooms::default(),
            pools: Arc::default(),
            fence: Fence::default(),
        }
    }

    /// Clients for the plane that `credential` reaches.
    pub fn plane(&self, plane: PlaneKind, credential: &Credential) -> PlaneClient {
        let way = Way::network(credential.clone(), self.pool(credential));
        self.client(plane, way, &credential.namespace)
    }

    /// Clients for a plane that `service` stands for, with the same limits and figures: for tests without sockets.
    pub fn plane_of<S, B>(&self, plane: PlaneKind, service: S) -> PlaneClient
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
            .map_response(|response| response.map(way::received))
            .map_err(Into::into);
        self.client(plane, Way::Given(BoxCloneSyncService::new(service)), "default")
    }

    fn client(&self, plane: PlaneKind, way: Way, namespace: &str) -> PlaneClient {
        let retire = Told::new(false);
        let service = PlaneService::new(plane, way, self.limits, self.metrics.clone(), retire.listen());
        let namespace = namespace.to_owned();
        // The stack below sends watches and calls over different connections, so one client serves both.
        PlaneClient {
            make: Box::new(move || kube::Client::new(service.clone(), namespace.clone())),
            kept: Mutex::default(),
            retire,
            large: self.rooms.of(plane),
            page_bytes: self.limits.page_bytes(),
            fence: self.fence.clone(),
        }
    }

    fn pool(&self, credential: &Credential) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(&credential.connection_digest).and_then(Weak::upgrade) {
            return pool;
        }
        pools.retain(|_, pool| pool.strong_count() > 0);
        let pool = Arc::new(Pool::new(credential, self.limits, self.fence.clone()));
        pools.insert(credential.connection_digest, Arc::downgrade(&pool));
        pool
    }
}

/// The way to one plane, whose credential may be replaced while it is in use.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    client: ArcSwap<PlaneClient>,
    generation: Told<u64>,
    reach: Arc<Reach>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("generation", &self.0.generation.read(|n| n))
            .finish()
    }
}

impl Connection {
    /// A connection that begins with generation 0.
    pub fn new(client: PlaneClient) -> Self {
        Self(Arc::new(Inner {
            client: ArcSwap::from_pointee(client),
            generation: Told::new(0),
            reach: Arc::default(),
        }))
    }

    /// A connection over a ready-made client, for tests with a service of their own.
    pub fn of_client(client: kube::Client) -> Self {
        Self::new(PlaneClient::of(client))
    }

    /// The way with the current credential. Keep it for one call, not for longer.
    pub fn current(&self) -> Arc<PlaneClient> {
        self.0.client.load_full()
    }

    /// A number that grows with each replaced credential: watches start again, calls that were refused are repeated.
    pub fn generation(&self) -> Listener<u64> {
        self.0.generation.listen()
    }

    /// What holds the connections of this process once its right to write has run out.
    pub fn fence(&self) -> Fence {
        self.0.client.load().fence.clone()
    }

    /// What all that ask the plane find out together.
    pub fn reach(&self) -> &Arc<Reach> {
        &self.0.reach
    }

    /// Takes another credential into use. Watches on the old one end within 30 s; its connections close when idle.
    pub fn replace(&self, client: PlaneClient) {
        let old = self.0.client.swap(Arc::new(client));
        self.0.generation.modify(|g| {
            *g += 1;
            true
        });
        tokio::spawn(async move {
            tokio::time::sleep(RETIRE_AFTER).await;
            old.retire.tell(true);
        });
    }
}

#[cfg(test)]
mod tests;
