//! The API servers behind a front, and the certificates by which it serves and passes on.

use crate::{
    child::{self, StandInArgs, refuse},
    users::Own,
};
use http::uri::Authority;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The client by which requests are passed on, by HTTP/2.
pub(crate) type Forwarder = Client<Connector, Incoming>;
/// The connector of such a client.
pub(crate) type Connector = HttpsConnector<HttpConnector>;
/// The verifier by which a client's certificate is one of the sandbox, or not.
pub(crate) type Clients = Arc<dyn ClientCertVerifier>;

/// An API server behind a front.
pub(crate) struct Upstream {
    /// Host and port.
    pub(crate) authority: Authority,
    /// The stand-in's own way to it, with all rights.
    pub(crate) client: kube::Client,
}

impl Upstream {
    /// The API server of a kubeconfig.
    pub(crate) async fn of(file: &Path) -> anyhow::Result<Self> {
        let loaded = fedgate_kubeconfig::load(Some(file), None, false).await;
        let config = loaded.map_err(|error| refuse(file, error))?.config;
        let authority = config.cluster_url.authority().cloned();
        Ok(Self {
            authority: authority.ok_or_else(|| refuse(file, "its server has no host"))?,
            client: child::client(file, None).await?,
        })
    }

    /// The API servers of planes, by name.
    pub(crate) async fn all(
        args: &StandInArgs,
        own: Own,
        planes: &[String],
    ) -> anyhow::Result<BTreeMap<String, Self>> {
        let mut all = BTreeMap::new();
        for plane in planes {
            all.insert(plane.clone(), Self::of(&args.kubeconfig(own, plane)).await?);
        }
        Ok(all)
    }
}

/// Folder of the certificate with which an API server lets a front name the user.
pub(crate) const FRONT_PROXY: &str = "front-proxy";

/// The sandbox's authority, and the folders of pairs beside it.
pub(crate) struct Pki {
    pub(crate) dir: PathBuf,
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Pki {
    /// The certificates of a stand-in's sandbox.
    pub(crate) fn of(args: &StandInArgs) -> Self {
        let dir = args.layout().pki();
        Self { dir }
    }

    fn roots(&self) -> anyhow::Result<RootCertStore> {
        let file = self.dir.join("ca.crt");
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(&file).map_err(|error| refuse(&file, error))?;
        roots.add(authority).map_err(|error| refuse(&file, error))?;
        Ok(roots)
    }

    fn pair(&self, folder: &str) -> anyhow::Result<Pair> {
        let (certificate, key) = (
            self.dir.join(folder).join("tls.crt"),
            self.dir.join(folder).join("tls.key"),
        );
        let chain =
            CertificateDer::from_pem_file(&certificate).map_err(|error| refuse(&certificate, error))?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| refuse(&key, error))?;
        Ok((vec![chain], key))
    }

    /// Settings by which a front serves. A client may have a certificate, or none.
    pub(crate) fn server(&self) -> anyhow::Result<Tls> {
        let refuse = |error: rustls::Error| refuse(&self.dir, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients: Clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| refuse(rustls::Error::General(error.to_string())))?;
        let (chain, key) = self.pair("server")?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .with_client_cert_verifier(Arc::new(AnyAuthority(Arc::clone(&clients))))
            .with_single_cert(chain, key)
            .map_err(refuse)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls {
            config: Arc::new(config),
            clients,
        })
    }

    /// The connector of clients that pass requests on: with the certificate in a folder, such as [`FRONT_PROXY`], or without one,
    /// where the request itself names the user.
    pub(crate) fn connector(&self, pair: Option<&str>) -> anyhow::Result<Connector> {
        let refuse = |error: rustls::Error| refuse(&self.dir, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .with_root_certificates(self.roots()?);
        let config = match pair {
            Some(folder) => {
                let (chain, key) = self.pair(folder)?;
                config.with_client_auth_cert(chain, key).map_err(refuse)?
            }
            None => config.with_no_client_auth(),
        };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // A write of several frames waits for no acknowledgement.
        tcp.set_nodelay(true);
        Ok(HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http2()
            .wrap_connector(tcp))
    }
}

/// A new client that passes requests on. It has connections of its own.
pub(crate) fn forwarder(connector: &Connector) -> Forwarder {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_only(true)
        .build(connector.clone())
}

/// Settings by which a front serves.
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) clients: Clients,
}

/// Lets clients in with certificates of any authority, as a kube-apiserver does, which then tells those apart in its answers.
#[derive(Debug)]
struct AnyAuthority(Clients);

impl ClientCertVerifier for AnyAuthority {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
