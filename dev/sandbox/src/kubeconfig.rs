//! Kubeconfig files and clients of the sandbox's users.

use super::certs::Pair;
use crate::error::on;
use anyhow::Context;
use k8s_openapi::ByteString;
use serde_json::json;

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
    /// Name at API servers, and in kubeconfig files.
    pub(super) fn name(self) -> String {
        match self {
            User::Admin => "admin".to_owned(),
            User::Gateway => "fedgate-gateway".to_owned(),
            User::Cell(name) => format!("fedgate-cell-{name}"),
            User::Quota(name) => format!("fedgate-quota:{name}"),
        }
    }

    /// Name of the folder with this user's kubeconfig files.
    pub(super) fn label(self) -> String {
        self.name().trim_start_matches("fedgate-").replace(':', "-")
    }
}

/// The name of a plane and the address of its server.
pub(super) type Entry<'a> = (&'a str, &'a str);

/// A kubeconfig with one context per plane, all for one user; the first is the current one. Everything is inline.
pub(super) fn text(authority_pem: &str, user: &str, pair: &Pair, planes: &[Entry<'_>]) -> String {
    let authority = base64(authority_pem);
    let cluster = |(plane, url): &Entry<'_>| json!({"name": plane, "cluster": {"server": url, "certificate-authority-data": authority}});
    let context =
        |(plane, _): &Entry<'_>| json!({"name": plane, "context": {"cluster": plane, "user": user}});
    let login = json!({
        "client-certificate-data": base64(&pair.certificate),
        "client-key-data": base64(&pair.key),
    });
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "current-context": planes.first().map(|(plane, _)| plane),
        "clusters": planes.iter().map(cluster).collect::<Vec<_>>(),
        "contexts": planes.iter().map(context).collect::<Vec<_>>(),
        "users": [{"name": user, "user": login}],
    });
    config.to_string()
}

/// A client for one user at one server; without a pair for nobody, e.g. for health checks, and without an authority for a
/// server without TLS. Calls are not retried by the client itself.
pub(super) fn client(
    plane: &str,
    url: &str,
    authority_der: Option<&[u8]>,
    pair: Option<&Pair>,
) -> anyhow::Result<kube::Client> {
    let uri = url
        .parse()
        .with_context(|| format!("{plane}: {url} is no address"))?;
    let mut config = kube::Config::new(uri);
    config.root_cert = authority_der.map(|der| vec![der.to_vec()]);
    config.default_retry = false;
    config.disable_compression = true;
    if let Some(pair) = pair {
        config.auth_info.client_certificate_data = Some(base64(&pair.certificate));
        config.auth_info.client_key_data = Some(base64(&pair.key).into());
    }
    kube::Client::try_from(config).with_context(on(plane, "make a client"))
}

/// Standard base64, through the type that Kubernetes uses for bytes.
pub(super) fn base64(text: &str) -> String {
    match serde_json::to_value(ByteString(text.as_bytes().to_vec())) {
        Ok(serde_json::Value::String(encoded)) => encoded,
        _ => String::new(),
    }
}
