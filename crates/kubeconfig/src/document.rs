//! Text of a kubeconfig to a value: encodings, documents, base64.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};
use serde_saphyr::options::DuplicateKeyPolicy;
use std::{collections::BTreeSet, fmt};

/// Lists of named entries, each with the field that holds an entry.
pub(crate) const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];

/// Reason why a text is no kubeconfig. Has no part of the text, which may be a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Line and column of the fault, if known.
    pub position: Option<(u64, u64)>,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(self.why)
    }
}

impl std::error::Error for Malformed {}

/// The kubeconfig of a text in UTF-8 or, with a byte order mark, UTF-16: its first document that is not empty. An empty text is
/// an empty mapping.
pub fn document(bytes: &[u8]) -> Result<Value, Malformed> {
    let malformed = |why| Malformed { position: None, why };
    let text = decode(bytes).ok_or_else(|| malformed("it is not UTF-8 text"))?;
    // kubectl takes the last of two equal keys.
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(&text, options).map_err(|error| Malformed {
            position: error.location().map(|at| (at.line(), at.column())),
            why: "it is not valid YAML",
        })?;
    let first = documents.into_iter().find(|document| !document.is_null());
    let document = first.unwrap_or_else(|| json!({}));
    if !document.is_object() {
        return Err(malformed("it is not a mapping"));
    }
    let says = |field: &str, wanted: &str| document[field].is_null() || document[field] == wanted;
    if !says("kind", "Config") || !says("apiVersion", "v1") {
        return Err(malformed("its kind is not Config of apiVersion v1"));
    }
    for (list, _) in LISTS {
        let mut names = BTreeSet::new();
        if !entries(&document, list).all(|item| names.insert(item["name"].as_str())) {
            return Err(malformed("two entries of a list have the same name"));
        }
    }
    Ok(document)
}

fn decode(bytes: &[u8]) -> Option<String> {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let (units, rest) = bytes[2..].as_chunks::<2>();
        let text: Vec<u16> = units.iter().map(|bytes| unit(*bytes)).collect();
        String::from_utf16(&text).ok().filter(|_| rest.is_empty())
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

/// The entries of a list of a kubeconfig.
pub(crate) fn entries<'d>(document: &'d Value, list: &str) -> impl Iterator<Item = &'d Value> {
    document[list].as_array().into_iter().flatten()
}

/// The mapping `field` of the entry of this name in a list.
pub fn entry<'d>(document: &'d Value, list: &str, field: &str, name: &str) -> Option<&'d Map<String, Value>> {
    let found = entries(document, list).find(|item| item["name"] == name);
    found.and_then(|item| item.get(field)?.as_object())
}

/// The bytes of a text in standard base64, which may be broken into lines.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let ByteString(bytes) = serde_json::from_value(json!(text.replace(['\r', '\n'], ""))).ok()?;
    Some(bytes)
}

/// The bytes in standard base64, as Kubernetes has them in `data`.
pub fn to_base64(bytes: &[u8]) -> Value {
    json!(ByteString(bytes.to_vec()))
}

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_first_document_that_is_not_empty_counts() {
        for text in [
            "a: 1",
            "---\na: 1\n---\n",
            "# mine\n---\na: 1\n---\n# no more\n",
            "---\n# mine\n---\na: 1\n---\na: 2\n",
            "a: 0\na: 1",
        ] {
            assert_eq!(document(text.as_bytes()), Ok(json!({"a": 1})), "{text}");
        }
        assert_eq!(document(b""), Ok(json!({})));
    }

    #[test]
    fn an_encoding_is_known_by_its_mark() {
        let wide =
            |unit: fn(u16) -> [u8; 2]| "\u{feff}a: é".encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        for bytes in [
            "a: é".into(),
            "\u{feff}a: é".into(),
            wide(u16::to_le_bytes),
            wide(u16::to_be_bytes),
        ] {
            assert_eq!(document(&bytes), Ok(json!({"a": "é"})), "{bytes:?}");
        }
        for bytes in [&b"\xff\xfea\0b"[..], b"\xff\xfe\0\xd8", b"a: \xff", b"\xff"] {
            assert!(document(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn no_error_shows_a_part_of_the_text() {
        for text in [
            "token: [hush",
            "- hush",
            "kind: hush",
            "users: [{name: hush}, {name: hush}]",
        ] {
            let error = document(text.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }
}
