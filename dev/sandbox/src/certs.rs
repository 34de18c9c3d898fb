//! The sandbox's own certificate authority: servers and users.

use crate::error::cannot;
use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// The name under which the hub's kube-apiserver speaks to aggregated API servers.
pub(super) const FRONT_PROXY: &str = "front-proxy-client";

/// Names by which the processes reach each other: loopback, and what Karmada's configurations would call its servers.
const SERVER_NAMES: [&str; 4] = [
    "localhost",
    "127.0.0.1",
    "karmada-webhook.karmada-system.svc",
    "karmada-aggregated-apiserver.karmada-system.svc",
];

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// One certificate authority for everything in one sandbox.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority; nobody outside the sandbox has reason to trust it.
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "fedgate sandbox");
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
        })
    }

    /// The authority's certificate, PEM.
    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// The authority's certificate, DER.
    pub(super) fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// The authority's key, PEM.
    fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The certificate that every server of the sandbox shows, under these names beside those of all sandboxes.
    fn server(&self, names: &[String]) -> anyhow::Result<Pair> {
        let names = SERVER_NAMES
            .iter()
            .copied()
            .map(String::from)
            .chain(names.iter().cloned());
        let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "fedgate sandbox server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// The certificate of a user: the common name is the user's name, the organizations are its groups.
    pub(super) fn client(&self, user: &str, group: Option<&str>) -> anyhow::Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> anyhow::Result<Pair> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// Certificate files that the processes read.
#[derive(Clone)]
pub(super) struct Files {
    /// The authority's certificate.
    pub(super) authority: PathBuf,
    /// Its key, for the hub's signer of certificate requests.
    pub(super) authority_key: PathBuf,
    /// Folder with the server's `tls.crt` and `tls.key`.
    pub(super) server: PathBuf,
    /// Folder with the front proxy's `tls.crt` and `tls.key`.
    pub(super) front_proxy: PathBuf,
    /// Public key of the service account tokens.
    pub(super) token_public: PathBuf,
    /// Private key of the service account tokens.
    pub(super) token_private: PathBuf,
}

impl Files {
    /// Writes what `authority` made into `dir`; servers have these names too.
    pub(super) fn write(dir: &Path, authority: &Authority, names: &[String]) -> anyhow::Result<Self> {
        let files = Self {
            authority: dir.join("ca.crt"),
            authority_key: dir.join("ca.key"),
            server: dir.join("server"),
            front_proxy: dir.join("front-proxy"),
            token_public: dir.join("service-accounts.pub"),
            token_private: dir.join("service-accounts.key"),
        };
        let tokens = KeyPair::generate()?;
        write(&files.authority, &authority.pem())?;
        write(&files.authority_key, &authority.key_pem())?;
        write_pair(&files.server, &authority.server(names)?)?;
        write_pair(&files.front_proxy, &authority.client(FRONT_PROXY, None)?)?;
        write(&files.token_public, &tokens.public_key_pem())?;
        write(&files.token_private, &tokens.serialize_pem())?;
        Ok(files)
    }
}

fn write_pair(dir: &Path, pair: &Pair) -> anyhow::Result<()> {
    write(&dir.join("tls.crt"), &pair.certificate)?;
    write(&dir.join("tls.key"), &pair.key)
}

/// Writes a file that only its owner may read, and the folders above it.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(cannot("create folder", parent))?;
    }
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(cannot("write", path))
}
