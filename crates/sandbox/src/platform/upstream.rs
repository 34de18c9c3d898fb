//! The API servers behind the stand-in.

use crate::{SandboxError, child};
use http::{Uri, uri::Authority};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::{collections::BTreeMap, fmt::Display, path::Path, path::PathBuf, sync::Arc};

/// The client by which requests are passed on: as the front proxy, by HTTP/2.
pub(super) type Forwarder = Client<HttpsConnector<HttpConnector>, Incoming>;

/// One API server.
pub(super) struct Upstream {
    /// Where it is.
    pub(super) authority: Authority,
    /// The stand-in's own way to it, with all rights.
    pub(super) client: kube::Client,
}

/// All of them.
pub(super) struct Upstreams {
    pub(super) core: Upstream,
    pub(super) projects: BTreeMap<String, Upstream>,
    /// `None`: the core is Milo's own API server, and has all projects.
    pub(super) spare: Option<Upstream>,
}

impl Upstreams {
    /// Whether the core is Milo's own API server: what Milo does itself is not played then.
    pub(super) fn is_milo(&self) -> bool {
        self.spare.is_none()
    }

    /// Where a path of this project leads. A name that has no API server of its own leads to the spare one, whether or not
    /// there is such a Project; Milo's own API server has all names.
    pub(super) fn of(&self, project: Option<&str>) -> &Upstream {
        match (project, &self.spare) {
            (Some(name), Some(spare)) => self.projects.get(name).unwrap_or(spare),
            _ => &self.core,
        }
    }
}

fn refuse(file: &Path, error: impl Display) -> SandboxError {
    SandboxError::Options(format!("cannot use {}: {error}", file.display()))
}

impl Upstream {
    /// The API server of a kubeconfig.
    pub(super) async fn of(file: &Path) -> Result<Self, SandboxError> {
        let kubeconfig = Kubeconfig::read_from(file).map_err(|error| refuse(file, error))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let url: Uri = config.map_err(|error| refuse(file, error))?.cluster_url;
        let authority = url.authority().cloned();
        Ok(Self {
            authority: authority.ok_or_else(|| refuse(file, "its server has no host"))?,
            client: child::client(file).await.map_err(|error| refuse(file, error))?,
        })
    }
}

/// The sandbox's authority, and the folders of pairs beside it.
pub(super) struct Pki {
    pub(super) dir: PathBuf,
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Pki {
    fn roots(&self) -> Result<RootCertStore, SandboxError> {
        let file = self.dir.join("ca.crt");
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(&file).map_err(|error| refuse(&file, error))?;
        roots.add(authority).map_err(|error| refuse(&file, error))?;
        Ok(roots)
    }

    fn pair(&self, folder: &str) -> Result<Pair, SandboxError> {
        let (certificate, key) = (
            self.dir.join(folder).join("tls.crt"),
            self.dir.join(folder).join("tls.key"),
        );
        let chain =
            CertificateDer::from_pem_file(&certificate).map_err(|error| refuse(&certificate, error))?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| refuse(&key, error))?;
        Ok((vec![chain], key))
    }

    /// How the stand-in shows itself: a client may have a certificate of the sandbox, or none.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, SandboxError> {
        let refuse = |error: rustls::Error| refuse(&self.dir, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| refuse(rustls::Error::General(error.to_string())))?;
        let (chain, key) = self.pair("server")?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(refuse)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// The client by which requests are passed on.
    pub(super) fn forwarder(&self) -> Result<Forwarder, SandboxError> {
        let refuse = |error: rustls::Error| refuse(&self.dir, error);
        let (chain, key) = self.pair("front-proxy")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refuse)?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(chain, key)
            .map_err(refuse)?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_http2()
            .build();
        Ok(Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .build(connector))
    }
}
