//! Kubeconfig files and clients of the sandbox's users.

use super::{SandboxError, certs::Pair};
use k8s_openapi::ByteString;
use std::fmt::Write;

/// Users of the planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User<'a> {
    /// `admin` in group `system:masters`: may do anything.
    Admin,
    /// `fedgate-gateway`: may do what manifests/ grants the gateway. The same certificate on hub and projects.
    Gateway,
    /// `fedgate-cell-<name>` in group `fedgate-cells`: the cell of this name, on the hub and on its own plane.
    Cell(&'a str),
    /// `fedgate-quota:<name>` in group `fedgate-quota`: the claims of the cell of this name, on projects.
    Quota(&'a str),
}

impl User<'_> {
    /// Name of the folder with this user's kubeconfig files, and of its entry in them.
    pub(super) fn label(self) -> String {
        match self {
            User::Admin => "admin".to_owned(),
            User::Gateway => "gateway".to_owned(),
            User::Cell(name) => format!("cell-{name}"),
            User::Quota(name) => format!("quota-{name}"),
        }
    }
}

/// The name of a plane and the address of its server.
pub(super) type Entry<'a> = (&'a str, &'a str);

/// A kubeconfig with one context per plane, all for one user; the first is the current one. Everything is inline.
pub(super) fn text(authority_pem: &str, user: &str, pair: &Pair, planes: &[Entry<'_>]) -> String {
    let authority = base64(authority_pem);
    let mut out = String::from("apiVersion: v1\nkind: Config\n");
    let current = planes.first().map_or("", |(plane, _)| plane);
    let _ = writeln!(out, "current-context: {current}\nclusters:");
    for (plane, url) in planes {
        let _ = writeln!(
            out,
            "- name: {plane}\n  cluster:\n    server: {url}\n    certificate-authority-data: {authority}"
        );
    }
    out.push_str("contexts:\n");
    for (plane, _) in planes {
        let _ = writeln!(
            out,
            "- name: {plane}\n  context:\n    cluster: {plane}\n    user: {user}"
        );
    }
    let _ = writeln!(
        out,
        "users:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    client-key-data: {}",
        base64(&pair.certificate),
        base64(&pair.key)
    );
    out
}

/// A client for one user at one server; without a pair for nobody, e.g. for health checks, and without an authority for a
/// server without TLS. Calls are not retried by the client itself.
pub(super) fn client(
    plane: &str,
    url: &str,
    authority_der: Option<&[u8]>,
    pair: Option<&Pair>,
) -> Result<kube::Client, SandboxError> {
    let uri = url
        .parse()
        .map_err(|e| SandboxError::Options(format!("{plane}: {url} is no address: {e}")))?;
    let mut config = kube::Config::new(uri);
    config.root_cert = authority_der.map(|der| vec![der.to_vec()]);
    config.default_retry = false;
    config.disable_compression = true;
    if let Some(pair) = pair {
        config.auth_info.client_certificate_data = Some(base64(&pair.certificate));
        config.auth_info.client_key_data = Some(base64(&pair.key).into());
    }
    kube::Client::try_from(config).map_err(SandboxError::api(plane, "make a client"))
}

/// Standard base64, through the type that Kubernetes uses for bytes.
pub(super) fn base64(text: &str) -> String {
    match serde_json::to_value(ByteString(text.as_bytes().to_vec())) {
        Ok(serde_json::Value::String(encoded)) => encoded,
        _ => String::new(),
    }
}
