//! The way to all planes over TCP, with TLS or without.

use crate::{
    body::Body,
    service::{Planes, Service, refuse},
    simulator::Simulator,
    status::Status,
};
use http::{Request, Response, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

/// Before the name of a project in a path of Milo, and behind it.
const MILO: (&str, &str) = (
    "/apis/resourcemanager.miloapis.com/v1alpha1/projects/",
    "/control-plane/",
);

/// How HTTP/2 begins.
const PREFACE: &[u8] = b"PRI";

impl Simulator {
    /// Serves all planes, each under `/planes/<name>` and under the path that a project of this name has at Milo, by
    /// HTTP/1.1 and HTTP/2. A bearer token is the user's name; who
    /// has none is `anonymous`. It returns when the listener fails; dropping the future ends all connections.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<()> {
        let acceptor = tls.map(TlsAcceptor::from);
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await?;
            let server = Server {
                planes: self.planes(),
                streams: self.streams(),
            };
            let acceptor = acceptor.clone();
            // A connection that fails is its client's affair.
            connections.spawn(async move { drop(server.connection(stream, acceptor).await) });
            while connections.try_join_next().is_some() {}
        }
    }
}

#[derive(Clone)]
struct Server {
    planes: Arc<Planes>,
    streams: u32,
}

impl Server {
    async fn connection(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if let Some(acceptor) = acceptor {
            let stream = acceptor.accept(stream).await?;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            self.speak(stream, http2).await
        } else {
            let mut begin = [0; PREFACE.len()];
            let read = stream.peek(&mut begin).await?;
            self.speak(stream, &begin[..read] == PREFACE).await
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        stream: S,
        http2: bool,
    ) -> io::Result<()> {
        let (io, streams) = (TokioIo::new(stream), self.streams);
        let service = service_fn(move |request| self.clone().answer(request));
        if http2 {
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(streams)
                .serve_connection(io, service)
                .await
        } else {
            hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(io, service)
                .await
        }
        .map_err(io::Error::other)
    }

    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let Some((plane, path)) = routed(head.uri.path()) else {
            return refuse(&Status::no_such_path());
        };
        let token = head
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let user = token
            .and_then(|token| token.strip_prefix("Bearer "))
            .unwrap_or("anonymous");
        let service = Service {
            planes: self.planes,
            plane: plane.into(),
            user: user.into(),
        };
        service.answer(&head, &path, body).await
    }
}

/// The plane to which a path leads, and the path there.
fn routed(path: &str) -> Option<(&str, String)> {
    let of_milo = || path.strip_prefix(MILO.0)?.split_once(MILO.1);
    if let Some((plane, rest)) = of_milo() {
        return Some((plane, format!("/{rest}")));
    }
    let path = path.strip_prefix("/planes/")?;
    let (plane, rest) = path.split_once('/').unwrap_or((path, ""));
    // A hub's proxy leads to the plane with the name of the cluster.
    let (plane, rest) = rest
        .strip_prefix("apis/cluster.karmada.io/v1alpha1/clusters/")
        .and_then(|rest| rest.split_once("/proxy/"))
        .unwrap_or((plane, rest));
    Some((plane, format!("/{rest}")))
}
