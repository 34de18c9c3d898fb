//! Kubeconfigs with a token, everything inline.

use super::error::{Error, Kind};
use fedgate_engine::plane::kubeconfig::{Credential, Rules};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::time::Duration;

/// The text in base64, as Kubernetes has it in `data`.
pub fn base64(bytes: &[u8]) -> Value {
    json!(ByteString(bytes.to_vec()))
}

/// The bytes of a value in base64.
pub fn from_base64(value: &Value) -> Option<Vec<u8>> {
    let ByteString(bytes) = serde_json::from_value(value.clone()).ok()?;
    Some(bytes)
}

/// A kubeconfig for a server whose authority is a PEM bundle. `plane` names cluster and context.
pub fn with_token(
    plane: &str,
    server: &str,
    authority: &[u8],
    user: &str,
    token: &str,
) -> Result<String, Error> {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": plane,
        "contexts": [{"name": plane, "context": {"cluster": plane, "user": user}}],
        "clusters": [{"name": plane, "cluster": {"server": server, "certificate-authority-data": base64(authority)}}],
        "users": [{"name": user, "user": {"token": token}}],
    });
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .map_err(|error| Error::new(Kind::Failed, "cannot write a kubeconfig").because(error.to_string()))
}

/// True if a kubeconfig leads to the server and its token has more than half of `lifetime` left.
pub fn is_fresh(text: &[u8], server: &str, lifetime: Duration, now: Timestamp) -> bool {
    let Ok(credential) = Credential::from_secret("", "", text, Rules::default()) else {
        return false;
    };
    let half = i64::try_from(lifetime.as_secs() / 2).unwrap_or(i64::MAX);
    let same = credential.server().to_string().trim_end_matches('/') == server.trim_end_matches('/');
    same && credential
        .expiry()
        .is_none_or(|expiry| expiry.at.saturating_sub(now.as_second()) > half)
}
