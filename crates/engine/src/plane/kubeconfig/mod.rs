//! Kubeconfigs, read by an allow-list: an inline or referenced CA with a token or a client certificate. Fields that
//! would run a program, disable server verification or use a proxy are rejected (contract: federation.md §3.2).

mod error;
mod expiry;
mod reader;

pub use error::KubeconfigError;
pub use expiry::{Expiry, Part, TimeLeft};

use reader::{Reader, digest, is_plain, read};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Maximum size in bytes of a kubeconfig or of a file it refers to.
const MAX_BYTES: u64 = 1024 * 1024;
/// Path of the service account in a Pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Additions to the allow-list of kubeconfig fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Accept `http://` servers, without CA and credential. For development only: nothing is encrypted.
    pub plain_http: bool,
}

/// A checked credential: everything needed to connect to one plane, with the files already read.
#[derive(Clone)]
pub struct Credential {
    pub(super) server: http::Uri,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) server_name: Option<ServerName<'static>>,
    /// Header with the bearer token; its debug text does not show it.
    pub(super) token: Option<http::HeaderValue>,
    pub(super) namespace: String,
    /// Digest of all inputs of a TLS connection: address, CA, client certificate.
    pub(super) connection_digest: [u8; 32],
    digest: [u8; 32],
    files: Vec<PathBuf>,
    expiry: Option<Expiry>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("server", &self.server)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Credential {
    /// Equal credentials connect to the same plane as the same user.
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Credential {
    /// Reads and checks a kubeconfig file; also reads the files it refers to, relative to its folder.
    pub fn from_file(path: &Path, rules: Rules) -> Result<Self, KubeconfigError> {
        let origin = format!("kubeconfig file {}", path.display());
        let text = read(&origin, "(the file itself)", path)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut credential = Reader::new(origin, rules, Some(folder)).credential(&text)?;
        credential.files.insert(0, path.to_owned());
        Ok(credential)
    }

    /// Checks the kubeconfig of a Secret. It may not refer to files.
    pub fn from_secret(
        namespace: &str,
        name: &str,
        text: &[u8],
        rules: Rules,
    ) -> Result<Self, KubeconfigError> {
        let origin = format!("Secret {namespace}/{name}, key kubeconfig");
        Reader::new(origin, rules, None).credential(text)
    }

    /// The service account of the Pod this process runs in.
    pub fn in_cluster() -> Result<Self, KubeconfigError> {
        let origin = format!("in-cluster service account in {SERVICE_ACCOUNT}");
        let from_env = |name: &str| {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            value.ok_or_else(|| {
                let next = "run inside a cluster or name a kubeconfig file";
                KubeconfigError::new(&origin, &format!("field (environment) {name} is missing; {next}"))
            })
        };
        let (host, port) = (
            from_env("KUBERNETES_SERVICE_HOST")?,
            from_env("KUBERNETES_SERVICE_PORT")?,
        );
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let document = serde_json::json!({
            "current-context": "pod",
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
            "clusters": [{"name": "pod", "cluster": {"server": format!("https://{host}:{port}"), "certificate-authority": "ca.crt"}}],
            "users": [{"name": "pod", "user": {"tokenFile": "token"}}],
        });
        Reader::new(origin, Rules::default(), Some(Path::new(SERVICE_ACCOUNT))).document(&document)
    }

    /// The credential for a path below the server's address: one of many planes behind that address.
    #[must_use]
    pub fn below(&self, path: &str) -> Self {
        let base = self.server.to_string();
        let address = format!("{}/{}", base.trim_end_matches('/'), path.trim_start_matches('/'));
        address
            .parse()
            .map_or_else(|_| self.clone(), |server| self.at(server))
    }

    /// The credential for another path of the server; `None` if that is no address.
    #[must_use]
    pub fn at_path(&self, path: &str) -> Option<Self> {
        let mut parts = self.server.clone().into_parts();
        parts.path_and_query = Some(path.parse().ok()?);
        Some(self.at(http::Uri::from_parts(parts).ok()?))
    }

    /// The credential for another host, without a path; `None` if that is no address.
    #[must_use]
    pub fn at_host(&self, host: &str) -> Option<Self> {
        let mut parts = self.server.clone().into_parts();
        parts.authority = Some(host.parse().ok()?);
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let mut at = self.at(http::Uri::from_parts(parts).ok()?);
        at.server_name = None;
        at.connection_digest = digest(&[Some(&self.connection_digest), Some(host.as_bytes())]);
        Some(at)
    }

    fn at(&self, server: http::Uri) -> Self {
        let digest = digest(&[Some(&self.digest), Some(server.to_string().as_bytes())]);
        Self {
            server,
            digest,
            ..self.clone()
        }
    }

    /// True if the connection to the plane has no TLS (development).
    pub(super) fn is_plain(&self) -> bool {
        is_plain(&self.server)
    }

    /// The address of the API server.
    pub fn server(&self) -> &http::Uri {
        &self.server
    }

    /// The end of the credential, if it says that.
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// The files that were read: a change of one of them may change the credential.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}

#[cfg(test)]
mod tests;
