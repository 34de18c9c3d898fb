//! `--admin-tls-directory`: certificate and key of the administrative address, read again when a file changes (contract:
//! operations.md §2.7 rule 3).

use fedgate_engine::plane::files::FileWatch;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::watch;

/// Reason why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", file.display())]
pub struct TlsError {
    file: PathBuf,
    cause: String,
}

/// The present certificate.
#[derive(Clone)]
pub(super) struct Tls {
    current: watch::Receiver<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files, and follows them as long as the result is in use. A file that cannot be used later leaves the former
    /// certificate in place.
    pub(super) fn follow(directory: &Path) -> Result<Self, TlsError> {
        let files = [directory.join("tls.crt"), directory.join("tls.key")];
        let mut watch = FileWatch::default();
        watch.follow(files.iter().map(PathBuf::as_path));
        let (sender, current) = watch::channel(Arc::new(read(&files)?));
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sender.closed() => return,
                    () = watch.changed() => {}
                }
                // Also after the links of a mounted Secret have moved.
                watch.follow(files.iter().map(PathBuf::as_path));
                match read(&files) {
                    Ok(config) => {
                        sender.send_replace(Arc::new(config));
                        tracing::info!("the administrative address has read its certificate again");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the administrative address keeps its former certificate; correct the file");
                    }
                }
            }
        });
        Ok(Self { current })
    }

    /// Returns when the files have been read again.
    #[cfg(test)]
    pub(super) async fn changed(&mut self) {
        self.current.changed().await.unwrap();
    }

    /// The configuration of a new connection.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.current.borrow().clone()
    }
}

fn read([crt, key]: &[PathBuf; 2]) -> Result<ServerConfig, TlsError> {
    let failed = |file: &Path, cause: String| TlsError {
        file: file.to_owned(),
        cause,
    };
    let chain = CertificateDer::pem_file_iter(crt).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| failed(crt, error.to_string()))?;
    if chain.is_empty() {
        return Err(failed(crt, "there is no certificate in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string()))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| failed(key, error.to_string()))
}
