//! An API server on loopback, by HTTP/2 and HTTP/1.1 over TLS, which is told when to go away.

use fedgate_simulator::{Service, Simulator};
use http::Request;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// The certificate of all servers: one may take another's place.
static IDENTITY: LazyLock<CertifiedKey<KeyPair>> =
    LazyLock::new(|| rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap());

/// The certificate by which each of them is known, as PEM.
pub(crate) fn ca() -> String {
    IDENTITY.cert.pem()
}

fn tls(protocols: &[&[u8]]) -> rustls::ServerConfig {
    let key = PrivateKeyDer::try_from(IDENTITY.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![IDENTITY.cert.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    tls
}

/// See the module. It ends with all its connections when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    service: Service,
    /// Grows with each order to go away; connections that begin later stay.
    going: watch::Sender<u64>,
    /// Calls wait while this is so.
    held: watch::Sender<bool>,
    /// Calls that have come.
    calls: watch::Sender<usize>,
    http2: AtomicUsize,
    http1: AtomicUsize,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves a plane.
    pub(crate) async fn start(simulator: &Simulator, plane: &str) -> Self {
        Self::speaking(simulator, plane, &[b"h2", b"http/1.1"]).await
    }

    /// Serves a plane by the protocols with these names; by HTTP/1.1 without any.
    pub(crate) async fn speaking(simulator: &Simulator, plane: &str, protocols: &[&[u8]]) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(tls(protocols)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            service: simulator.service(plane, "gateway"),
            going: watch::Sender::new(0),
            held: watch::Sender::new(false),
            calls: watch::Sender::new(0),
            http2: AtomicUsize::new(0),
            http1: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(shared.clone(), listener, acceptor));
        Self {
            address,
            shared,
            task,
        }
    }

    /// All present connections end in good order, once what is under way on them is over: GOAWAY by HTTP/2, and
    /// `Connection: close` by HTTP/1.1. New ones are accepted.
    pub(crate) fn go_away(&self) {
        self.shared.going.send_modify(|orders| *orders += 1);
    }

    /// Lets calls that are no watches wait before they are carried out, or lets them go on.
    pub(crate) fn hold_calls(&self, held: bool) {
        self.shared.held.send_replace(held);
    }

    /// How many calls have come, as it grows.
    pub(crate) fn calls(&self) -> watch::Receiver<usize> {
        self.shared.calls.subscribe()
    }

    /// How many HTTP/2 connections there have been, which are those of watches.
    pub(crate) fn http2_connections(&self) -> usize {
        self.shared.http2.load(Ordering::SeqCst)
    }

    /// How many HTTP/1.1 connections there have been, which are those of calls, and of watches where it does not
    /// speak HTTP/2.
    pub(crate) fn http1_connections(&self) -> usize {
        self.shared.http1.load(Ordering::SeqCst)
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, acceptor: TlsAcceptor) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (shared, acceptor) = (shared.clone(), acceptor.clone());
        // A connection that breaks is what these tests are about.
        connections.spawn(async move { drop(shared.connection(stream, acceptor).await) });
    }
}

impl Shared {
    async fn connection(self: Arc<Self>, stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream = acceptor.accept(stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2.fetch_add(1, Ordering::SeqCst);
            self.http2(stream).await
        } else {
            self.http1.fetch_add(1, Ordering::SeqCst);
            self.http1(stream).await
        }
    }

    async fn http2(self: Arc<Self>, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let mut going = self.going.subscribe();
        let service = service_fn(move |request| self.clone().answer(request));
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            _ = going.changed() => connection.as_mut().graceful_shutdown(),
            end = connection.as_mut() => return end.map_err(io::Error::other),
        }
        connection.await.map_err(io::Error::other)
    }

    async fn http1(self: Arc<Self>, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let mut going = self.going.subscribe();
        let service = service_fn(move |request| self.clone().answer(request));
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            _ = going.changed() => connection.as_mut().graceful_shutdown(),
            end = connection.as_mut() => return end.map_err(io::Error::other),
        }
        connection.await.map_err(io::Error::other)
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> io::Result<http::Response<fedgate_simulator::Body>> {
        let watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        if !watch {
            self.calls.send_modify(|calls| *calls += 1);
            let mut held = self.held.subscribe();
            held.wait_for(|held| !held).await.map_err(io::Error::other)?;
        }
        tower::Service::call(&mut self.service.clone(), request).await
    }
}
