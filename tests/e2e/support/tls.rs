//! A port of the loopback that speaks TLS under a certificate of its own.

use axum::serve::Listener;
use std::{io, net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// See the module.
pub(crate) struct Tls {
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

/// A free port, and the certificate that its clients trust, in PEM.
pub(crate) async fn listen() -> (Tls, String) {
    let certified =
        rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("make a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der());
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the usual versions")
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key.expect("read the key"))
            .expect("use the certificate");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    (Tls { listener, acceptor }, certified.cert.pem())
}
