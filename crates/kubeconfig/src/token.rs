//! Times of a bearer token that is a JWT. Nothing is verified.

use crate::from_base64;
use serde_json::Value;

/// When a token was issued and when it ends, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenTimes {
    /// Claim `iat`.
    pub issued: Option<i64>,
    /// Claim `exp`.
    pub ends: i64,
}

/// The times of a JWT; `None` if it is none or has no end. The signature is not checked.
pub fn token_times(token: &str) -> Option<TokenTimes> {
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let mut standard = claims.replace('-', "+").replace('_', "/");
    while !standard.len().is_multiple_of(4) {
        standard.push('=');
    }
    let claims: Value = serde_json::from_slice(&from_base64(&standard)?).ok()?;
    Some(TokenTimes {
        issued: claims["iat"].as_i64(),
        ends: claims["exp"].as_i64()?,
    })
}
