//! Where the simulator's planes are: TLS on loopback, each plane under a path of its own.

use anyhow::{Context, Result};
use fedgate_simulator::Simulator;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::{net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, task::JoinSet};

/// The address of all planes; they are served as long as it is kept.
pub(crate) struct Address {
    at: SocketAddr,
    /// The certificate that clients trust, as PEM and as DER.
    pub(crate) pem: String,
    pub(crate) der: Vec<u8>,
    _server: JoinSet<()>,
}

impl Address {
    /// Serves the planes.
    pub(crate) async fn serve(simulator: &Simulator) -> Result<Self> {
        let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let mut tls =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
        let at = listener.local_addr()?;
        let mut server = JoinSet::new();
        let simulator = simulator.clone();
        server.spawn(async move {
            if let Err(error) = simulator.serve(listener, Some(Arc::new(tls))).await {
                eprintln!("bench: the simulator serves no more: {error}");
            }
        });
        Ok(Self {
            at,
            pem: certified.cert.pem(),
            der: certified.cert.der().to_vec(),
            _server: server,
        })
    }

    /// The URL of a plane.
    pub(crate) fn url(&self, plane: &str) -> String {
        format!("https://{}/planes/{plane}", self.at)
    }
}
