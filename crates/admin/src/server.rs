//! Connections of the administrative address and of the probes': each has a time limit for its handshake, for each header and
//! for what it does not read, none can keep a new one out, and a stream can end its own.

use super::{access::Peer, deadline::Deadline, tls::Tls};
use crate::api::HangUp;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, header},
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{net::IpAddr, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// Time limit of a TLS handshake, and of the headers of a request; a connection that asks nothing for so long is closed.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer may wait for a reader that reads nothing.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of the headers of a request, and of what is buffered for a reader that is slower than the answer.
const BUFFER: usize = 32 * 1024;
/// Maximum number of connections.
pub(super) const CONNECTIONS: usize = 1_024;
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
    let mut places = Places::default();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = shutdown.wait_for(|ends| *ends) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "the administrative address did not accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let peer = Peer::at(address.ip());
        places.make_room(peer.address);
        let (router, tls, shutdown) = (router.clone(), tls.clone(), shutdown.clone());
        let task = connections.spawn(connection(stream, peer.clone(), router, tls, shutdown));
        places.0.push(Place { peer, task });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Places(Vec<Place>);

struct Place {
    peer: Peer,
    task: AbortHandle,
}

impl Places {
    /// Ends a connection if all places, or those of the address, are taken: the oldest that has shown no token, or else the
    /// oldest. A new one always has a place, because it may be the one that has a token, or the kubelet's.
    fn make_room(&mut self, address: IpAddr) {
        self.0.retain(|place| !place.task.is_finished());
        let of_address = |place: &Place| place.peer.address == address;
        let is_crowded = self.0.iter().filter(|place| of_address(place)).count() >= OF_ADDRESS;
        if !is_crowded && self.0.len() < CONNECTIONS {
            return;
        }
        let may_end = |place: &Place| !is_crowded || of_address(place);
        let is_stranger = |place: &Place| may_end(place) && !place.peer.is_admitted();
        let mut places = self.0.iter();
        let oldest = places
            .position(is_stranger)
            .or_else(|| self.0.iter().position(may_end));
        if let Some(oldest) = oldest {
            self.0.remove(oldest).task.abort();
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
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

/// Answers the requests of a connection. Without a token there is one answer alone, because answers that are asked for in
/// advance and never read would take the processor from all others.
pub(super) async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    let hang_up = HangUp::default();
    let of_request = hang_up.clone();
    let of_answer = peer.clone();
    let service = router
        .map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(of_request.clone());
            request.extensions_mut().insert(peer.clone());
            request.map(Body::new)
        })
        .map_response(move |mut response: Response| {
            if !of_answer.is_admitted() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            response
        });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(BUFFER)
        .serve_connection(
            TokioIo::new(Deadline::new(stream, READ_WITHIN)),
            TowerToHyperService::new(service),
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of these peers, whose connections go on.
    fn places(peers: impl IntoIterator<Item = Peer>, tasks: &mut JoinSet<()>) -> Places {
        let place = |peer| Place {
            peer,
            task: tasks.spawn(std::future::pending()),
        };
        Places(peers.into_iter().map(place).collect())
    }

    fn peer(last: usize) -> Peer {
        let bits = 0x0a00_0000 + u32::try_from(last).unwrap();
        Peer::at(std::net::Ipv4Addr::from_bits(bits).into())
    }

    #[tokio::test]
    async fn the_oldest_without_a_token_gives_way_or_else_the_oldest() {
        let mut tasks = JoinSet::new();
        let mut places = places((0..CONNECTIONS).map(peer), &mut tasks);
        places.0[0].peer.admit();
        places.make_room(peer(CONNECTIONS).address);
        assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(places.0.len(), CONNECTIONS - 1);
        assert_eq!(places.0[0].peer.address, peer(0).address);
        assert_eq!(places.0[1].peer.address, peer(2).address);
        places.make_room(peer(CONNECTIONS).address);
        assert_eq!(places.0.len(), CONNECTIONS - 1, "there was room");
        places.0.extend(self::places([peer(1)], &mut tasks).0);
        for place in &places.0 {
            place.peer.admit();
        }
        places.make_room(peer(CONNECTIONS).address);
        assert_eq!(places.0[0].peer.address, peer(2).address);
    }

    #[tokio::test]
    async fn an_address_with_many_connections_ends_its_own() {
        let mut tasks = JoinSet::new();
        let peers = [peer(1)].into_iter().chain((0..OF_ADDRESS).map(|_| peer(2)));
        let mut places = places(peers, &mut tasks);
        places.make_room(peer(3).address);
        assert_eq!(places.0.len(), OF_ADDRESS + 1);
        places.make_room(peer(2).address);
        assert_eq!(places.0.len(), OF_ADDRESS);
        assert_eq!(places.0[0].peer.address, peer(1).address);
    }
}
