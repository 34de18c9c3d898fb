//! A hub that answers and lacks everything, so that doctor exits with 1 unless another plane is absent.

use axum::{Json, Router, http::StatusCode, routing::get, serve::Listener};
use k8s_openapi::ByteString;
use serde_json::json;
use std::{io, net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

struct Tls {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// Its kubeconfig; doctor refuses one without TLS.
pub(crate) async fn bare_hub() -> String {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let missing = || async {
        let status =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": "no"});
        (StatusCode::NOT_FOUND, Json(status))
    };
    let version = || async { Json(json!({"gitVersion": "v1.36.3"})) };
    let router = Router::new().route("/version", get(version)).fallback(missing);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move { axum::serve(Tls { listener, acceptor }, router).await.unwrap() });
    let authority = ByteString(pair.cert.pem().into_bytes());
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}]})
    .to_string()
}
