//! Connections of the administrative address: each has a time limit for its handshake and for each header, none can keep the
//! others out, and a stream can end its own.

use super::{access::Peer, tls::Tls};
use crate::operations::HangUp;
use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// Time limit of a TLS handshake, and of the headers of a request; a connection that asks nothing for so long is closed.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of the headers of a request, and of what is buffered for a reader that is slower than the answer.
const BUFFER: usize = 32 * 1024;
/// Maximum number of connections.
const CONNECTIONS: usize = 1_024;
/// Maximum number of connections of one address.
pub(super) const OF_ADDRESS: usize = 128;
/// Pause after an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` holds true, and then to the end of the answers under way.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Tls>,
    mut shutdown: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let of_address = Arc::<OfAddress>::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = shutdown.wait_for(|ends| *ends) => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((place, stream, peer)) = accepted else {
            continue;
        };
        let Some(counted) = of_address.enter(peer.ip()) else {
            continue;
        };
        let (router, tls, shutdown) = (router.clone(), tls.clone(), shutdown.clone());
        connections.spawn(async move {
            let _held = (place, counted);
            connection(stream, peer, router, tls, shutdown).await;
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

type Accepted = (tokio::sync::OwnedSemaphorePermit, TcpStream, SocketAddr);

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((place, stream, peer)),
        Err(error) => {
            tracing::debug!(%error, "the administrative address did not accept a connection");
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}

/// Numbers of connections by address.
#[derive(Default)]
struct OfAddress(Mutex<BTreeMap<IpAddr, usize>>);

/// A counted connection.
struct Counted(Arc<OfAddress>, IpAddr);

impl OfAddress {
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let mut counts = self.0.lock();
        let count = counts.entry(address).or_default();
        if *count >= OF_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), address))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock();
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    tls: Option<Tls>,
    shutdown: watch::Receiver<bool>,
) {
    // Small answers and deltas are sent at once; a failure costs milliseconds only.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return requests(stream, peer, router, shutdown).await;
    };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(HEADERS_WITHIN, handshake).await {
        Ok(Ok(stream)) => requests(stream, peer, router, shutdown).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake of the administrative address failed"),
        Err(_) => {}
    }
}

/// Answers the requests of a connection.
pub(super) async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    let hang_up = HangUp::default();
    let of_request = hang_up.clone();
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of_request.clone());
        request.extensions_mut().insert(Peer(peer.ip()));
        request.map(Body::new)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    let mut served = std::pin::pin!(served);
    tokio::select! {
        _ = served.as_mut() => return,
        () = hang_up.wanted() => return,
        _ = shutdown.wait_for(|ends| *ends) => {}
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        _ = served => {}
        () = hang_up.wanted() => {}
    }
}
