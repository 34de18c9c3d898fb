//! Takes connections: TLS with HTTP/2 or HTTP/1.1.

use super::{certificate, handle::Handler};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::{io, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Calls at a time on one connection: as many as a kube-apiserver allows.
const STREAMS: u32 = 100;
/// When no connection can be taken, for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, handler: Arc<Handler>) {
    let acceptor = TlsAcceptor::from(tls);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
                tokio::spawn(async move {
                    if let Err(error) = connection(stream, acceptor, handler).await {
                        tracing::debug!(%error, "a connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, handler: Arc<Handler>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let session = stream.get_ref().1;
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let user = session
        .peer_certificates()
        .and_then(|chain| certificate::user(chain.first()?));
    let service = service_fn(move |request| {
        let (handler, user) = (Arc::clone(&handler), user.clone());
        async move { Ok::<_, io::Error>(handler.answer(user, request).await) }
    });
    let io = TokioIo::new(stream);
    if is_http2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
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
