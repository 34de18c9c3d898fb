//! Takes connections: TLS with HTTP/2 or HTTP/1.1.

use super::{
    certificate,
    identity::Identity,
    upstream::{Clients, Tls},
};
use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ServerConnection, pki_types::UnixTime};
use std::{error::Error, io, net::Ipv4Addr, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Calls at a time on one connection: as many as a kube-apiserver allows.
const STREAMS: u32 = 100;
/// Delay after an error of `accept`, e.g. for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// An answer: an API server's as it comes, or a front's own.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
type BoxError = Box<dyn Error + Send + Sync>;

/// An answer with the body of another server, or one of a front's own.
pub(crate) fn boxed(
    answer: Response<impl Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static>,
) -> Answer {
    answer.map(|body| body.map_err(Into::into).boxed_unsync())
}

/// The caller that opened a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The client had no certificate.
    Nobody,
    /// The user of a certificate of the sandbox's authority.
    User(Identity),
    /// Somebody with a certificate that proves nothing.
    Unproven,
}

/// Serves a port of 127.0.0.1 for ever; `answers` makes the function that answers the requests of a caller's connection. The
/// future of an answer is dropped if the client leaves.
pub(crate) async fn serve<F, A>(
    port: u16,
    tls: Tls,
    answers: impl Fn(Caller) -> F + Send + Sync + 'static,
) -> anyhow::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.with_context(|| format!("cannot listen at 127.0.0.1:{port}"))?;
    let acceptor = TlsAcceptor::from(tls.config);
    let answers = Arc::new(move |session: &ServerConnection| answers(caller(&tls.clients, session)));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, answers) = (acceptor.clone(), Arc::clone(&answers));
                tokio::spawn(async move {
                    if let Err(error) = connection(stream, acceptor, &*answers).await {
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

/// The user who opened a connection. As at a kube-apiserver, the handshake succeeds with a certificate of another authority.
fn caller(clients: &Clients, session: &ServerConnection) -> Caller {
    let Some([first, others @ ..]) = session.peer_certificates() else {
        return Caller::Nobody;
    };
    let is_proven = clients.verify_client_cert(first, others, UnixTime::now()).is_ok();
    let user = certificate::user(first).filter(|_| is_proven);
    user.map_or(Caller::Unproven, Caller::User)
}

async fn connection<F, A>(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    answers: impl Fn(&ServerConnection) -> F,
) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let session = stream.get_ref().1;
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let answers = answers(session);
    let service = service_fn(move |request| {
        let answer = answers(request);
        async move { Ok::<_, io::Error>(answer.await) }
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
            // Clients keep connections for longer than the default between two requests.
            .header_read_timeout(None)
            .serve_connection(io, service)
            .await
    }
    .map_err(io::Error::other)
}
