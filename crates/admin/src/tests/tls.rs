//! `--admin-tls-directory`.

use super::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// A folder with certificate and key, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fedgate-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes another certificate; its PEM.
    fn renew(&self) -> String {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        std::fs::write(self.0.join("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(self.0.join("tls.crt"), &certificate).unwrap();
        certificate
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings(folder: &Folder) -> Settings {
    Settings {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        token: None,
        reviewer: None,
        tls: Some(folder.0.clone()),
        probes: None,
    }
}

/// Asks for `/livez` with this certificate as the only trusted one, in these versions.
async fn livez(
    address: SocketAddr,
    certificate: &str,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let request = format!(
        "GET /livez HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
        address.port()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

#[tokio::test]
async fn the_address_is_served_over_tls_and_a_new_certificate_counts_without_restart() {
    let folder = Folder::new("served");
    let first = folder.renew();
    let bound = bind(settings(&folder)).await.unwrap();
    let (address, tls) = (bound.access.address, bound.tls.clone().unwrap());
    let (stop, stopped) = watch::channel(false);
    let served = tokio::spawn(bound.serve(Arc::new(Waiting), Metrics::new().unwrap(), stopped));
    for versions in [[&rustls::version::TLS12], [&rustls::version::TLS13]] {
        let text = livez(address, &first, &versions).await.unwrap();
        assert!(
            text.starts_with("HTTP/1.1 200 OK") && text.ends_with("ok\n"),
            "{text}"
        );
    }
    let mut renewed = tls.clone();
    std::fs::write(folder.0.join("tls.key"), "no key").unwrap();
    let both = [&rustls::version::TLS12, &rustls::version::TLS13];
    assert!(
        livez(address, &first, &both).await.is_ok(),
        "the former one stays"
    );
    let second = folder.renew();
    renewed.changed().await;
    livez(address, &second, &both).await.unwrap();
    assert!(livez(address, &first, &both).await.is_err());
    stop.send_replace(true);
    served.await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let folder = Folder::new("wrong");
    let said = async || bind(settings(&folder)).await.err().unwrap().to_string();
    let text = said().await;
    assert!(
        text.contains("--admin-tls-directory") && text.contains("tls.crt"),
        "{text}"
    );
    folder.renew();
    std::fs::write(folder.0.join("tls.crt"), "").unwrap();
    assert!(
        said().await.contains("tls.crt: there is no certificate"),
        "{}",
        said().await
    );
    let other = Folder::new("other");
    std::fs::write(folder.0.join("tls.crt"), other.renew()).unwrap();
    assert!(
        said().await.contains("tls.key"),
        "a key of another certificate: {}",
        said().await
    );
}
