//! The certificate of a cell's karmada-agent on the hub: its key, its request, its kubeconfig (contract: provisioning.md
//! §5.4). Pure.

use super::{
    kubeconfig::{self, Server, base64, from_base64},
    pull::{KUBECONFIG, PENDING_KEY, user},
};
use fedgate_api::names::hex;
use fedgate_terminal::error::Error;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// API version of requests for certificates.
pub const API_VERSION: &str = "certificates.k8s.io/v1";
/// The group that Karmada's controller approves.
const GROUP: &str = "system:karmada:agents";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const YEAR: u64 = 365 * 86_400;

/// A new private key.
pub fn new_key() -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(|error| failed(&error))
}

/// The name of a key's request: with the same key it is the same.
pub fn request_name(key: &KeyPair, cell: &str) -> String {
    const BYTES: usize = 4;
    let digest = Sha256::digest(key.subject_public_key_info());
    format!("fedgate-agent-{cell}-{}", hex(&digest[..BYTES]))
}

/// The request for a certificate of the cell's agent.
pub fn request(key: &KeyPair, cell: &str) -> Result<Value, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, GROUP);
    params.distinguished_name.push(DnType::CommonName, user(cell));
    let request = params.serialize_request(key);
    let text = request.and_then(|request| request.pem());
    let text = text.map_err(|error| failed(&error))?;
    Ok(json!({
        "apiVersion": API_VERSION, "kind": "CertificateSigningRequest",
        "metadata": {"name": request_name(key, cell)},
        "spec": {
            "request": base64(text.as_bytes()),
            "signerName": SIGNER,
            "expirationSeconds": YEAR,
            "usages": ["digital signature", "client auth"],
        },
    }))
}

fn failed(error: &rcgen::Error) -> Error {
    Error::failed("cannot make the key of karmada-agent").because(error.to_string())
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
    let find = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|found| found["type"] == kind)
    };
    if let Some(refused) = find("Denied").or_else(|| find("Failed")) {
        let text = |key: &str| refused[key].as_str().unwrap_or_default();
        return Signed::Refused(format!("{}: {}", text("type"), text("message")));
    }
    match find("Approved") {
        Some(_) => Signed::Approved,
        None => Signed::Pending,
    }
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
    pub fn kubeconfig(&self, hub: Server<'_>, cell: &str) -> Result<String, Error> {
        let credential = json!({"client-certificate-data": base64(&self.certificate), "client-key-data": base64(&self.key)});
        kubeconfig::document("karmada-apiserver", hub, cell, &credential)
    }
}

/// The contents of the agent's Secret.
pub struct Held {
    /// A key whose request is on its way.
    pub pending: Option<KeyPair>,
    /// The certificate that the agent uses.
    pub pair: Option<Pair>,
    /// True if its kubeconfig leads to the hub.
    pub leads_there: bool,
}

impl Held {
    /// Reads a Secret; what cannot be read counts as missing.
    pub fn read(secret: &Value, hub: Server<'_>) -> Self {
        let text = |key: &str| filled(&secret["data"][key]).and_then(|bytes| String::from_utf8(bytes).ok());
        // The agent writes YAML when it renews its certificate.
        let file: Value = text(KUBECONFIG)
            .and_then(|text| fedgate_api::yaml::read(&text).ok())
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
            pending: text(PENDING_KEY).and_then(|text| KeyPair::from_pem(&text).ok()),
            pair: pair(),
            leads_there: cluster["server"] == hub.url && authority.as_deref() == Some(hub.authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::pull, *};

    const HUB_SERVER: Server<'_> = Server {
        url: "https://10.0.0.1:5443",
        authority: b"authority",
    };

    #[test]
    fn a_request_names_the_agent_and_is_named_after_its_key() {
        let key = new_key().unwrap();
        let request = request(&key, "dfw-2").unwrap();
        let name = request["metadata"]["name"].as_str().unwrap();
        let digits = name.strip_prefix("fedgate-agent-dfw-2-").unwrap();
        assert!(
            digits.len() == 8 && digits.chars().all(|c| c.is_ascii_hexdigit()),
            "{name}"
        );
        let again = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        assert_eq!(request_name(&again, "dfw-2"), name);
        assert_ne!(request_name(&new_key().unwrap(), "dfw-2"), name);

        let spec = &request["spec"];
        assert_eq!(spec["signerName"], "kubernetes.io/kube-apiserver-client");
        assert_eq!(spec["expirationSeconds"], 31_536_000);
        // Karmada approves these usages, and with them no other subject than this, and no further name.
        assert_eq!(spec["usages"], json!(["digital signature", "client auth"]));
        let text = String::from_utf8(from_base64(&spec["request"]).unwrap()).unwrap();
        let body: String = text.lines().filter(|line| !line.starts_with("---")).collect();
        let der = from_base64(&json!(body)).unwrap();
        let has = |part: &[u8]| der.windows(part.len()).any(|window| window == part);
        assert!(has(b"system:karmada:agents") && has(b"system:karmada:agent:dfw-2"));
        let alternative_names: &[u8] = &[0x55, 0x1d, 0x11];
        assert!(!has(alternative_names) && !has(b"rcgen"));
        assert!(!text.contains("PRIVATE"));
    }

    #[test]
    fn a_request_is_read_by_its_status() {
        let with = |conditions: Value| signed(&json!({"status": {"conditions": conditions}}));
        assert_eq!(signed(&json!({"status": {}})), Signed::Pending);
        assert_eq!(
            with(json!([{"type": "Approved", "status": "True"}])),
            Signed::Approved
        );
        let denied = json!([{"type": "Denied", "status": "True", "message": "not today"}]);
        assert_eq!(with(denied), Signed::Refused("Denied: not today".to_owned()));
        let failed = json!([{"type": "Approved"}, {"type": "Failed", "message": "no key"}]);
        assert_eq!(with(failed), Signed::Refused("Failed: no key".to_owned()));
        let done = json!({"status": {"certificate": base64(b"c"), "conditions": [{"type": "Approved"}]}});
        assert_eq!(signed(&done), Signed::Certificate(b"c".to_vec()));
    }

    #[test]
    fn the_agents_secret_is_read_in_each_of_its_states() {
        let nothing = Held::read(&Value::Null, HUB_SERVER);
        assert!(nothing.pending.is_none() && nothing.pair.is_none() && !nothing.leads_there);

        let key = new_key().unwrap();
        let pending = Held::read(
            &pull::secret(PENDING_KEY, key.serialize_pem().as_bytes()),
            HUB_SERVER,
        );
        assert_eq!(
            request_name(&pending.pending.unwrap(), "dfw-2"),
            request_name(&key, "dfw-2")
        );
        assert!(pending.pair.is_none());

        let pair = Pair {
            certificate: b"certificate".to_vec(),
            key: b"key".to_vec(),
        };
        let text = pair.kubeconfig(HUB_SERVER, "dfw-2").unwrap();
        let done = Held::read(&pull::secret(KUBECONFIG, text.as_bytes()), HUB_SERVER);
        assert!(done.pair == Some(pair) && done.leads_there && done.pending.is_none());
        let elsewhere = Server {
            url: "https://10.0.0.2:5443",
            ..HUB_SERVER
        };
        assert!(!Held::read(&pull::secret(KUBECONFIG, text.as_bytes()), elsewhere).leads_there);
        let other_authority = Server {
            authority: b"another",
            ..HUB_SERVER
        };
        assert!(!Held::read(&pull::secret(KUBECONFIG, text.as_bytes()), other_authority).leads_there);
    }

    #[test]
    fn a_kubeconfig_that_the_agent_has_renewed_is_read_too() {
        let text = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: YXV0aG9yaXR5\n    \
                    server: https://10.0.0.1:5443\n  name: karmada-apiserver\nkind: Config\nusers:\n- name: dfw-2\n  \
                    user:\n    client-certificate-data: bmV3\n    client-key-data: a2V5\n";
        let held = Held::read(&pull::secret(KUBECONFIG, text.as_bytes()), HUB_SERVER);
        assert!(held.leads_there);
        assert_eq!(held.pair.unwrap().certificate, b"new");
    }

    #[test]
    fn the_user_of_the_kubeconfig_is_the_cell_by_which_the_agent_names_its_next_request() {
        let pair = Pair {
            certificate: b"c".to_vec(),
            key: b"k".to_vec(),
        };
        let text = pair.kubeconfig(HUB_SERVER, "dfw-2").unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["contexts"][0]["context"]["user"], "dfw-2");
        assert_eq!(file["contexts"][0]["name"], file["current-context"]);
        assert_eq!(file["users"][0]["user"]["client-key-data"], "aw==");
    }
}
