//! The way to all planes by TLS: the API servers' part that knows users, which the simulator's planes leave to others. A
//! bearer token is its user's name; whoever shows a certificate of the authority is the agent, since nobody else has one.

use crate::world::NAME;
use fedgate_simulator::{Body, Simulator};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::{
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::{RootCertStore, pki_types::PrivateKeyDer, server::WebPkiClientVerifier};
use serde_json::{Value, json};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

type Answer = Response<Either<Body, Full<Bytes>>>;

/// The authority of the servers and of the agent's certificate.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for the key of this PEM text.
    pub(crate) fn signed(&self, key: &str) -> String {
        let key = KeyPair::from_pem(key).unwrap();
        CertificateParams::default()
            .signed_by(&key, &self.0)
            .unwrap()
            .pem()
    }

    fn tls(&self) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
            .unwrap()
            .signed_by(&key, &self.0)
            .unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        tls
    }
}

/// See the module. It ends with all its connections when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves each plane under `/planes/<name>`.
    pub(crate) async fn start(simulator: &Simulator, authority: &Authority) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(authority.tls()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(simulator.clone(), listener, acceptor));
        Self { address, task }
    }
}

async fn accept(simulator: Simulator, listener: TcpListener, acceptor: TlsAcceptor) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (simulator, acceptor) = (simulator.clone(), acceptor.clone());
        // A command that is killed breaks its connections.
        connections.spawn(async move { drop(connection(simulator, stream, acceptor).await) });
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(simulator: Simulator, stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let tls = stream.get_ref().1;
    let http2 = tls.alpn_protocol() == Some(b"h2");
    let certified = tls.peer_certificates().is_some();
    let service = service_fn(move |request| answer(simulator.clone(), certified, request));
    let io = TokioIo::new(stream);
    let served = if http2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .serve_connection(io, service)
            .await
    } else {
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(io, service)
            .await
    };
    served.map_err(io::Error::other)
}

/// Who asks, by the bearer token, or the certificate.
fn user(headers: &HeaderMap, certified: bool) -> String {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    match bearer {
        Some(token) => token.to_owned(),
        None if certified => format!("system:karmada:agent:{NAME}"),
        None => "anonymous".to_owned(),
    }
}

async fn answer(simulator: Simulator, certified: bool, request: Request<Incoming>) -> io::Result<Answer> {
    let user = user(request.headers(), certified);
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    let (plane, rest) = path
        .strip_prefix("/planes/")
        .and_then(|path| path.split_once('/'))
        .ok_or_else(|| io::Error::other("no plane has this path"))?;
    let rest = format!("/{rest}");
    if let Some(own) = of_users(&rest, &user) {
        let response = Response::builder()
            .status(StatusCode::CREATED)
            .header(header::CONTENT_TYPE, "application/json");
        let body = Either::Right(Full::from(own.to_string()));
        return response.body(body).map_err(io::Error::other);
    }
    let mut service = simulator.service(plane, &user);
    let (mut head, body) = request.into_parts();
    head.uri = rest.parse().map_err(io::Error::other)?;
    let answer = tower::Service::call(&mut service, Request::from_parts(head, body)).await?;
    Ok(answer.map(Either::Left))
}

/// Answers about users: who asks, and a token of an account.
fn of_users(path: &str, user: &str) -> Option<Value> {
    let path = path.split('?').next().unwrap_or(path);
    if path.ends_with("/selfsubjectreviews") {
        return Some(json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
            "status": {"userInfo": {"username": user}},
        }));
    }
    let account = path.strip_prefix("/api/v1/namespaces/")?.strip_suffix("/token")?;
    let (namespace, name) = account.split_once("/serviceaccounts/")?;
    Some(json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
        "spec": {"audiences": []},
        "status": {
            "token": format!("system:serviceaccount:{namespace}:{name}"),
            "expirationTimestamp": "2036-01-01T00:00:00Z",
        },
    }))
}
