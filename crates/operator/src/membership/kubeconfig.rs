//! Kubeconfigs with a token, everything inline.

use fedgate_engine::plane::kubeconfig::{Credential, Rules};
use fedgate_kubeconfig::token_times;
use fedgate_terminal::error::Error;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

pub use fedgate_kubeconfig::to_base64 as base64;

/// The bytes of a value in base64.
pub fn from_base64(value: &Value) -> Option<Vec<u8>> {
    fedgate_kubeconfig::from_base64(value.as_str()?)
}

/// An API server as a kubeconfig names it.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
    /// Address of the server.
    pub url: &'a str,
    /// PEM bundle of its authority.
    pub authority: &'a [u8],
}

/// A kubeconfig of a user with a token. `plane` names cluster and context.
pub fn with_token(plane: &str, server: Server<'_>, user: &str, token: &str) -> Result<String, Error> {
    document(plane, server, user, &json!({"token": token}))
}

/// A kubeconfig of a user with this credential.
pub fn document(plane: &str, server: Server<'_>, user: &str, credential: &Value) -> Result<String, Error> {
    let Server { url, authority } = server;
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": plane,
        "contexts": [{"name": plane, "context": {"cluster": plane, "user": user}}],
        "clusters": [{"name": plane, "cluster": {"server": url, "certificate-authority-data": base64(authority)}}],
        "users": [{"name": user, "user": credential}],
    });
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .map_err(|error| Error::failed("cannot write a kubeconfig").because(error.to_string()))
}

/// The token of a kubeconfig of [`with_token`].
pub fn token(text: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(text).ok()?;
    document["users"][0]["user"]["token"].as_str().map(str::to_owned)
}

/// Seconds of life that a server has given a token; `None` if the token does not say it.
pub fn granted(token: &str) -> Option<i64> {
    let times = token_times(token)?;
    Some(times.ends.saturating_sub(times.issued?))
}

/// True if a kubeconfig of [`with_token`] leads to the server and its token has more than half of its life left: of the
/// lifetime that is asked for or, if the server has granted less, of that.
pub fn is_fresh(text: &[u8], server: &str, lifetime: Duration, now: Timestamp) -> bool {
    let Ok(credential) = Credential::from_secret("", "", text, Rules::default()) else {
        return false;
    };
    let granted = token(text).as_deref().and_then(granted).unwrap_or(i64::MAX);
    let half = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX).min(granted) / 2;
    let same = credential.server().to_string().trim_end_matches('/') == server.trim_end_matches('/');
    same && credential
        .expiry()
        .is_none_or(|expiry| expiry.at.saturating_sub(now.as_second()) > half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    const HOUR: Duration = Duration::from_secs(3_600);
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    const SERVER: &str = "https://127.0.0.1:6443";
    /// {"iat":1800000000,"exp":1800086400}: a day.
    const DAY: &str = "e30.eyJpYXQiOjE4MDAwMDAwMDAsImV4cCI6MTgwMDA4NjQwMH0.x";

    fn is_fresh_after(hours: u32, lifetime: Duration, server: &str) -> bool {
        let key = KeyPair::generate().unwrap();
        let authority = CertificateParams::new(vec!["ca".to_owned()]).unwrap();
        let authority = authority.self_signed(&key).unwrap().pem();
        let of_hub = Server {
            url: SERVER,
            authority: authority.as_bytes(),
        };
        let text = with_token("hub", of_hub, "dfw-1", DAY).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap() + HOUR * hours;
        is_fresh(text.as_bytes(), server, lifetime, now)
    }

    #[test]
    fn a_token_that_the_server_has_shortened_is_fresh_for_half_of_its_own_life() {
        assert!(is_fresh_after(11, YEAR, SERVER));
        assert!(!is_fresh_after(13, YEAR, SERVER));
    }

    #[test]
    fn a_token_that_lives_longer_than_asked_is_fresh_while_half_of_that_is_left() {
        assert!(is_fresh_after(21, 4 * HOUR, SERVER));
        assert!(!is_fresh_after(23, 4 * HOUR, SERVER));
    }

    #[test]
    fn a_token_for_another_server_is_not_fresh() {
        assert!(!is_fresh_after(1, YEAR, "https://127.0.0.1:6444"));
    }
}
