//! Connections to one address with one TLS identity, shared by every plane behind it.
//!
//! hyper keeps a single HTTP/2 connection per client and queues requests beyond the server's stream limit, so watches
//! are spread over several clients ("lanes") by counting their streams. Short calls have HTTP/1.1 connections of their
//! own, and so has each watch where the server, or a proxy before it, does not speak HTTP/2.

use super::{
    Limits,
    fence::{self, Connector, Fence, Fenced},
};
use crate::plane::kubeconfig::Credential;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use parking_lot::Mutex;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpStream;
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

/// An idle connection closes after this time.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum number of idle connections for short calls; as many as the executor's workers.
const MAX_IDLE: usize = 32;

pub(super) type Hyper = Client<HttpsConnector<Connector>, kube::client::Body>;

/// Opens the connections of watches.
type Dialer = BoxCloneSyncService<http::Uri, MaybeHttpsStream<TokioIo<Fenced<TcpStream>>>, BoxError>;

/// Client for the watches on a lane.
pub(super) type Watching = Client<Dialer, kube::client::Body>;

/// Connection pool; see the module.
pub(super) struct Pool {
    /// The client for short calls, and how often the right to write had lapsed when it was made: its connections send nothing
    /// after the next lapse.
    calls: Mutex<(u64, Hyper)>,
    call_connector: HttpsConnector<Connector>,
    fence: Fence,
    connector: HttpsConnector<Connector>,
    /// True if the last connection for watches did not agree on HTTP/2.
    is_http1: Arc<AtomicBool>,
    limits: Limits,
    lanes: Mutex<Vec<Lane>>,
}

struct Lane {
    client: Watching,
    is_http1: bool,
    streams: Arc<Mutex<Streams>>,
}

/// The watches on a lane.
#[derive(Debug, Default)]
struct Streams {
    taken: usize,
    open: usize,
    /// Maximum number that were open at a time.
    proven: usize,
    /// Number of consecutive watches that did not open in time.
    unanswered: usize,
    limit: usize,
}

/// A proxy before the API server may allow fewer streams than [`Limits`] assumes, and never answer those beyond. This
/// many unanswered watches in a row indicate such a limit; a single one may be a failure of its plane.
const UNANSWERED: usize = 3;
/// Minimum number of streams that every server allows.
const LEAST_STREAMS: usize = 8;

impl Streams {
    fn new(limit: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            limit,
            ..Self::default()
        }))
    }

    fn has_room(&self) -> bool {
        self.taken < self.limit
    }
}

/// The slot of one watch on a lane; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    streams: Arc<Mutex<Streams>>,
    open: bool,
    is_http1: bool,
}

impl Slot {
    /// True if the watch has a connection of its own by HTTP/1.1.
    pub(super) fn is_http1(&self) -> bool {
        self.is_http1
    }

    /// Records that the server has answered.
    pub(super) fn opened(&mut self) {
        self.open = true;
        let mut streams = self.streams.lock();
        streams.open += 1;
        streams.proven = streams.proven.max(streams.open);
        streams.unanswered = 0;
    }

    /// Records that the server has not answered in time. After [`UNANSWERED`] in a row, the limit of the lane drops to
    /// the number of watches that were open before.
    pub(super) fn timed_out(&self) {
        let mut streams = self.streams.lock();
        streams.unanswered += 1;
        if streams.unanswered >= UNANSWERED {
            streams.limit = streams.limit.min(streams.proven.max(LEAST_STREAMS));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut streams = self.streams.lock();
        streams.open -= usize::from(self.open);
        streams.taken -= 1;
    }
}

impl Pool {
    pub(super) fn new(credential: &Credential, limits: Limits, fence: Fence) -> Self {
        let call_connector = connector(credential, &limits, false, Some(fence.clone()));
        Self {
            calls: Mutex::new((fence.lapses(), calls(call_connector.clone()))),
            call_connector,
            fence,
            // Watches write nothing.
            connector: connector(credential, &limits, !credential.is_plain(), None),
            // Plain http (development) cannot negotiate HTTP/2.
            is_http1: Arc::new(AtomicBool::new(credential.is_plain())),
            limits,
            lanes: Mutex::new(Vec::new()),
        }
    }

    /// The client for short calls.
    pub(super) fn calls(&self) -> Hyper {
        let (mut made, lapses) = (self.calls.lock(), self.fence.lapses());
        if made.0 != lapses {
            *made = (lapses, calls(self.call_connector.clone()));
        }
        made.1.clone()
    }

    /// True if the server was last found not to speak HTTP/2.
    pub(super) fn is_http1(&self) -> bool {
        self.is_http1.load(Ordering::Acquire)
    }

    /// A client with room for one more watch, and the slot of that watch.
    pub(super) fn lane(&self) -> (Watching, Slot) {
        let is_http1 = self.is_http1();
        let mut lanes = self.lanes.lock();
        // Slots are only taken under this lock, so an empty lane stays empty while it is removed.
        lanes.retain(|lane| lane.streams.lock().taken > 0);
        let free = lanes
            .iter()
            .position(|lane| lane.is_http1 == is_http1 && lane.streams.lock().has_room());
        let index = free.unwrap_or_else(|| {
            lanes.push(Lane {
                client: self.build_lane(is_http1),
                is_http1,
                streams: Streams::new(self.limits.streams_per_connection),
            });
            lanes.len() - 1
        });
        let lane = &lanes[index];
        lane.streams.lock().taken += 1;
        let slot = Slot {
            streams: lane.streams.clone(),
            open: false,
            is_http1,
        };
        (lane.client.clone(), slot)
    }

    fn build_lane(&self, is_http1: bool) -> Watching {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE);
        if !is_http1 {
            builder
                .http2_only(true)
                .http2_keep_alive_interval(self.limits.ping_every)
                .http2_keep_alive_timeout(self.limits.ping_answer)
                .http2_keep_alive_while_idle(true);
        }
        builder.build(self.dialer(is_http1))
    }

    /// Opens connections and records whether they agree on HTTP/2; those of a lane by HTTP/2 fail if they do not.
    fn dialer(&self, is_http1: bool) -> Dialer {
        let found = self.is_http1.clone();
        let judge = move |stream: MaybeHttpsStream<_>| {
            let agrees = stream.connected().is_negotiated_h2();
            found.store(!agrees, Ordering::Release);
            if agrees || is_http1 {
                return Ok(stream);
            }
            Err(io::Error::other("the server does not speak HTTP/2").into())
        };
        let connector = self.connector.clone();
        BoxCloneSyncService::new(connector.map_result(move |stream| stream.and_then(&judge)))
    }

    #[cfg(test)]
    pub(super) fn lanes(&self) -> usize {
        self.lanes.lock().len()
    }
}

fn calls(connector: HttpsConnector<Connector>) -> Hyper {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MAX_IDLE)
        .build(connector)
}

fn connector(
    credential: &Credential,
    limits: &Limits,
    http2: bool,
    fence: Option<Fence>,
) -> HttpsConnector<Connector> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(limits.connect));
    tcp.set_keepalive(Some(limits.ping_every));
    // By HTTP/1.1 there are no pings.
    tcp.set_keepalive_interval(Some(limits.ping_answer));
    tcp.set_keepalive_retries(Some(3));
    let tcp = fence::connector(tcp, fence);
    let builder = HttpsConnectorBuilder::new().with_tls_config(credential.tls.as_ref().clone());
    let builder = if credential.is_plain() {
        builder.https_or_http()
    } else {
        builder.https_only()
    };
    let builder = match &credential.server_name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone())),
        None => builder,
    };
    if http2 {
        builder.enable_all_versions().wrap_connector(tcp)
    } else {
        builder.enable_http1().wrap_connector(tcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::kubeconfig::Rules;

    fn slot(streams: &Arc<Mutex<Streams>>) -> Slot {
        streams.lock().taken += 1;
        Slot {
            streams: streams.clone(),
            open: false,
            is_http1: false,
        }
    }

    #[test]
    fn a_connection_that_answers_no_more_streams_is_full() {
        let streams = Streams::new(100);
        let mut open: Vec<Slot> = (0..20).map(|_| slot(&streams)).collect();
        open.iter_mut().for_each(Slot::opened);
        for _ in 0..UNANSWERED {
            assert!(streams.lock().has_room(), "it may have been the plane of each");
            slot(&streams).timed_out();
        }
        assert!(!streams.lock().has_room());
        open.pop();
        assert!(streams.lock().has_room(), "another has its place");
    }

    #[test]
    fn ten_thousand_projects_at_rest_fit_into_four_hundred_connections() {
        let kubeconfig = r#"{"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {}}]}"#;
        let rules = Rules { plain_http: true };
        let credential = Credential::from_secret("n", "s", kubeconfig.as_bytes(), rules).unwrap();
        let pool = Pool::new(&credential, Limits::default(), Fence::default());
        let slots: Vec<Slot> = (0..10_000 * 4).map(|_| pool.lane().1).collect();
        assert_eq!(pool.lanes(), 400);
        drop(slots);
        let _one = pool.lane();
        assert_eq!(pool.lanes(), 1, "what nobody uses is given up");
    }

    #[test]
    fn planes_that_do_not_answer_make_no_connection_full_that_others_share() {
        let streams = Streams::new(100);
        for _ in 0..20 {
            slot(&streams).timed_out();
            slot(&streams).opened();
        }
        assert_eq!(streams.lock().limit, 100);
    }
}
