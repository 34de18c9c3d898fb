//! The certificate of a cell's karmada-agent on the hub: its key, its request, its kubeconfig (contract: provisioning.md
//! §5.4). Pure.

use super::{
    error::{Error, Kind},
    kubeconfig::{base64, from_base64},
    pull::{KUBECONFIG, PENDING_KEY, user},
};
use fedgate_api::names::hex;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// API version of requests for certificates.
pub const API_VERSION: &str = "certificates.k8s.io/v1";
/// The group that Karmada's controller approves.
const GROUP: &str = "system:karmada:agents";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const YEAR: u64 = 365 * 86_400;

/// A private key that the hub may not have signed a certificate of yet.
#[derive(Debug)]
pub struct Key(KeyPair);

impl Key {
    /// A new key.
    pub fn generate() -> Result<Self, Error> {
        KeyPair::generate().map(Self).map_err(failed)
    }

    /// The key of a PEM text.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        KeyPair::from_pem(text).map(Self).map_err(failed)
    }

    /// Its PEM text.
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// The name of its request: with the same key it is the same.
    pub fn request_name(&self, cell: &str) -> String {
        const BYTES: usize = 4;
        let digest = Sha256::digest(self.0.subject_public_key_info());
        format!("fedgate-agent-{cell}-{}", hex(&digest[..BYTES]))
    }

    /// The request for a certificate of the cell's agent.
    pub fn request(&self, cell: &str) -> Result<Value, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, GROUP);
        params.distinguished_name.push(DnType::CommonName, user(cell));
        let request = params.serialize_request(&self.0).map_err(failed)?;
        let text = request.pem().map_err(failed)?;
        Ok(json!({
            "apiVersion": API_VERSION, "kind": "CertificateSigningRequest",
            "metadata": {"name": self.request_name(cell)},
            "spec": {
                "request": base64(text.as_bytes()),
                "signerName": SIGNER,
                "expirationSeconds": YEAR,
                "usages": ["digital signature", "client auth"],
            },
        }))
    }
}

fn failed(error: rcgen::Error) -> Error {
    Error::new(Kind::Failed, "cannot make the key of karmada-agent").because(error.to_string())
}

/// The bytes of a value in base64, if there are some.
fn filled(value: &Value) -> Option<Vec<u8>> {
    from_base64(value).filter(|bytes| !bytes.is_empty())
}

/// A step of a request on its way to a certificate.
#[derive(Debug, PartialEq, Eq)]
pub enum Signed {
    /// The certificate, PEM.
    Certificate(Vec<u8>),
    /// Approved, but not signed yet.
    Approved,
    /// Not approved yet.
    Pending,
    /// Refused, with the reason.
    Refused(String),
}

/// Reads a request from its status.
pub fn signed(request: &Value) -> Signed {
    let status = &request["status"];
    if let Some(certificate) = filled(&status["certificate"]) {
        return Signed::Certificate(certificate);
    }
    let conditions = status["conditions"].as_array();
    let find = |kind: &str| conditions.into_iter().flatten().find(|found| found["type"] == kind);
    if let Some(refused) = find("Denied").or_else(|| find("Failed")) {
        let text = |key: &str| refused[key].as_str().unwrap_or_default();
        return Signed::Refused(format!("{}: {}", text("type"), text("message")));
    }
    match find("Approved") {
        Some(_) => Signed::Approved,
        None => Signed::Pending,
    }
}

/// A way to the hub: its address and the PEM bundle of its authority.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// Address of the API server.
    pub server: &'a str,
    /// PEM bundle of its authority.
    pub authority: &'a [u8],
}

/// A certificate and its key, both PEM.
#[derive(PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

impl Pair {
    /// The agent's kubeconfig. Its user is the cell: the agent names its next request after it.
    pub fn kubeconfig(&self, route: Route<'_>, cell: &str) -> Result<String, Error> {
        let hub = "karmada-apiserver";
        super::kubeconfig::document(
            hub,
            (route.server, route.authority),
            cell,
            &json!({"client-certificate-data": base64(&self.certificate), "client-key-data": base64(&self.key)}),
        )
    }
}

/// The contents of the agent's Secret.
pub struct Held {
    /// A key whose request is on its way.
    pub pending: Option<Key>,
    /// The certificate that the agent uses.
    pub pair: Option<Pair>,
    /// True if its kubeconfig leads along the route.
    pub leads_there: bool,
}

impl Held {
    /// Reads a Secret; what cannot be read counts as missing.
    pub fn read(secret: &Value, route: Route<'_>) -> Self {
        let text = |key: &str| filled(&secret["data"][key]).and_then(|bytes| String::from_utf8(bytes).ok());
        // The agent writes YAML when it renews its certificate.
        let file: Value = text(KUBECONFIG)
            .and_then(|text| serde_saphyr::from_str(&text).ok())
            .unwrap_or_default();
        let (user, cluster) = (&file["users"][0]["user"], &file["clusters"][0]["cluster"]);
        let pair = || {
            Some(Pair {
                certificate: filled(&user["client-certificate-data"])?,
                key: filled(&user["client-key-data"])?,
            })
        };
        let authority = filled(&cluster["certificate-authority-data"]);
        Self {
            pending: text(PENDING_KEY).and_then(|text| Key::from_pem(&text).ok()),
            pair: pair(),
            leads_there: cluster["server"] == route.server && authority.as_deref() == Some(route.authority),
        }
    }
}
