//! The simulator's planes over TCP and TLS, each under `/planes/<name>` of one address.

use anyhow::{Context, Result};
use bytes::Bytes;
use fedgate_simulator::Simulator;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use std::{io, net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

/// Streams on one connection, as API servers allow by default.
const STREAMS: u32 = 100;

/// Where the planes are.
pub(crate) struct Address {
    pub(crate) at: SocketAddr,
    /// The certificate that its clients trust, as PEM.
    pub(crate) authority: String,
}

/// Serves until the runtime ends.
pub(crate) async fn serve(simulator: &Simulator) -> Result<Address> {
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let mut tls =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
    let address = Address {
        at: listener.local_addr()?,
        authority: certified.cert.pem(),
    };
    let simulator = simulator.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A connection that fails is its client's affair.
            tokio::spawn(connection(stream, acceptor.clone(), simulator.clone()));
        }
    });
    Ok(address)
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, simulator: Simulator) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| answer(simulator.clone(), request));
    if http2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .serve_connection(TokioIo::new(stream), service)
            .await?;
    } else {
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service)
            .await?;
    }
    Ok(())
}

type Body = BoxBody<Bytes, io::Error>;

fn whole(code: u16, text: String) -> io::Result<Response<Body>> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.boxed())
        .map_err(io::Error::other)
}

async fn answer(simulator: Simulator, mut request: Request<Incoming>) -> io::Result<Response<Body>> {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    let Some((plane, rest)) = path
        .strip_prefix("/planes/")
        .and_then(|path| path.split_once('/'))
    else {
        return whole(404, "no plane".to_owned());
    };
    if let Some(list) = discovery(rest) {
        return whole(200, list);
    }
    let user = request.headers().get(header::AUTHORIZATION);
    let user = user.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let user = user.strip_prefix("Bearer ").unwrap_or("anonymous");
    let mut service = simulator.service(plane, user);
    let uri = format!("/{rest}");
    *request.uri_mut() = uri.parse().map_err(io::Error::other)?;
    Ok(service.call(request).await?.map(BodyExt::boxed))
}

/// The kinds of a group that the gateway asks for before it starts.
fn discovery(path: &str) -> Option<String> {
    let group = path.strip_prefix("apis/")?.trim_end_matches('/');
    let names: Vec<&str> = super::planes::KINDS
        .iter()
        .filter(|kind| format!("{}/{}", kind.group, kind.version) == group)
        .map(|kind| kind.plural)
        .collect();
    let resources: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": "", "verbs": ["list"]}))
        .collect();
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources});
    (!names.is_empty()).then(|| list.to_string())
}
