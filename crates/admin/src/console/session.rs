//! Sessions of browsers (contract: operations.md §2.7 rule 4): a text with its end and a signature of it. The page keeps it in
//! the storage of its origin and sends it in a header: a cookie would reach every port of the host. The process keeps nothing of a
//! session, so that each replica with the same secret accepts it, and another secret ends all.

use axum::{
    Json,
    http::{header, request::Parts},
    response::{IntoResponse, Response},
};
use fedgate_api::names::hex;
use fedgate_operations::API_VERSION;
use ring::{hmac, rand::SystemRandom};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// Life of a session, in seconds.
pub const LIFE: u64 = 12 * 60 * 60;

/// Purpose of the derived key: a secret has other uses.
const PURPOSE: &[u8] = b"fedgate console session";

/// The path that begins a session.
pub const PATH: &str = "/console/session";

/// Scheme of the header `Authorization` that shows a session.
pub const SESSION: &str = "session";

/// Signs sessions, and knows its own.
pub struct Key(hmac::Key);

/// The system gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandom;

impl Key {
    /// The key that belongs to a secret.
    pub fn of(secret: &[u8]) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derived = hmac::sign(&secret, PURPOSE);
        Self(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    /// A key that no other process has.
    pub fn random() -> Result<Self, NoRandom> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.map(Self).map_err(|_| NoRandom)
    }

    /// The text of a session that begins now; a time is in seconds since the epoch.
    pub fn begin(&self, now: u64) -> String {
        let end = now.saturating_add(LIFE).to_string();
        let tag = hmac::sign(&self.0, end.as_bytes());
        format!("{end}.{}", hex(tag.as_ref()))
    }

    /// True if the session is of this key and has not ended. The signature is compared in constant time.
    pub fn admits(&self, session: &str, now: u64) -> bool {
        let Some((end, tag)) = session.split_once('.') else {
            return false;
        };
        let Some(tag) = bytes(tag) else {
            return false;
        };
        hmac::verify(&self.0, end.as_bytes(), &tag).is_ok() && end.parse::<u64>().is_ok_and(|end| now < end)
    }
}

/// Random text that cannot be guessed: 32 bytes in hexadecimal.
pub fn random_text() -> Result<String, NoRandom> {
    let random = ring::rand::generate::<[u8; 32]>(&SystemRandom::new());
    random.map(|bytes| hex(&bytes.expose())).map_err(|_| NoRandom)
}

/// The present time, in seconds since the epoch.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The answer that gives a page its session.
pub fn given(session: &str) -> Response {
    let answer = json!({"apiVersion": API_VERSION, "kind": "Session", "session": session});
    ([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
}

/// The credential that a request shows under this scheme, which is case-insensitive.
pub fn credential<'a>(parts: &'a Parts, scheme: &str) -> Option<&'a str> {
    let shown = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (shown, credential) = shown.split_once(' ')?;
    shown.eq_ignore_ascii_case(scheme).then(|| credential.trim())
}

/// The bytes of a signature.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lasts_for_twelve_hours() {
        let key = Key::of(b"secret");
        let session = key.begin(1_000);
        assert!(session.starts_with("44200."), "{session}");
        assert!(key.admits(&session, 1_000));
        assert!(key.admits(&session, 44_199));
        assert!(!key.admits(&session, 44_200));
    }

    #[test]
    fn a_session_is_of_one_secret_and_cannot_be_made_longer() {
        let key = Key::of(b"secret");
        let session = key.begin(1_000);
        assert!(Key::of(b"secret").admits(&session, 1_000), "of another replica");
        assert!(!Key::of(b"other").admits(&session, 1_000));
        assert!(!Key::random().unwrap().admits(&session, 1_000));
        let (_, tag) = session.split_once('.').unwrap();
        for forged in [
            format!("99999999.{tag}"),
            format!("044200.{tag}"),
            format!("44200.{}", &tag[..62]),
            format!("44200.{tag}00"),
            format!("44200.{}", &tag[..63]),
            "44200.".to_owned(),
            "44200".to_owned(),
            String::new(),
            "44200.ää".to_owned(),
        ] {
            assert!(!key.admits(&forged, 1_000), "{forged}");
        }
    }

    #[test]
    fn the_key_is_not_the_secrets_own_signature() {
        // A session reveals no signature that the secret makes elsewhere.
        let direct = Key(hmac::Key::new(hmac::HMAC_SHA256, b"secret"));
        assert!(!direct.admits(&Key::of(b"secret").begin(0), 0));
    }

    #[test]
    fn random_text_is_long_and_never_the_same() {
        let (one, other) = (random_text().unwrap(), random_text().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }
}
