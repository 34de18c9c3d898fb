//! Name newtypes: each is parsed once, at the edge, and carries its rule from then on (contract: federation.md §1.2).

use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

/// Why a text is not a valid name, with the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text as it stands on the wire.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

shared_text! {
    /// A city code, compared exactly: `DFW` is not `dfw`.
    CityCode
}
shared_text! {
    /// The name of a location, compared exactly.
    LocationName
}
shared_text! {
    /// The key of a project: `single`, a file's or Secret's name, or a Milo Project's name. Example: `shop/prod`.
    ProjectKey
}
shared_text! {
    /// A hub (and cell) namespace that belongs to a project namespace: `ns-<UID>`.
    HubNamespace
}

/// Prefix of the names of quota claims; the name of the Instance follows.
pub const CLAIM_PREFIX: &str = "instance-";

/// Longest name of a deployment: it travels as a label value.
pub const DEPLOYMENT_NAME_LIMIT: usize = 63;

/// The name of the deployment that an Instance's name tells, `<deployment>-<ordinal>`.
pub fn deployment_of_instance(name: &str) -> Option<&str> {
    let (deployment, number) = name.rsplit_once('-')?;
    (ordinal(number).is_some() && !deployment.is_empty()).then_some(deployment)
}

/// Parses the ordinal of an Instance: `0`, or digits without a leading zero.
pub fn ordinal(text: &str) -> Option<u32> {
    let canonical = text == "0" || !text.starts_with('0');
    if !canonical || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Whether `text` is a Kubernetes label value that is not empty.
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= 63
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Accepts a non-empty label value for `what`.
fn label_value(text: Arc<str>, what: &str) -> Result<Arc<str>, NameError> {
    if is_label_value(&text) {
        return Ok(text);
    }
    Err(NameError(format!(
        "{what} {text:?} is not a label value: 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
    )))
}

/// Whether `text` is a DNS-1123 subdomain, the rule of most object names.
pub fn is_object_name(text: &str) -> bool {
    let part = |p: &str| {
        let b = p.as_bytes();
        !b.is_empty()
            && b.iter()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-')
            && b[0] != b'-'
            && b[b.len() - 1] != b'-'
    };
    text.len() <= 253 && text.split('.').all(part)
}

impl CityCode {
    /// Accepts a non-empty label value.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Self::of_word(text.into())
    }

    /// The same of a text that is shared already.
    pub fn of_word(text: Arc<str>) -> Result<Self, NameError> {
        label_value(text, "city code").map(Self)
    }
}

impl LocationName {
    /// Accepts a non-empty label value, since the name is the value of labels.
    pub fn of_word(text: Arc<str>) -> Result<Self, NameError> {
        label_value(text, "location").map(Self)
    }
}

impl ProjectKey {
    /// Accepts a key whose label form `cluster-<key>` is a label value and can be told apart from others.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.strip_prefix('/').unwrap_or(text);
        if text.len() <= 55 && !text.contains('_') && is_label_value(&text.replace('/', "_")) {
            Ok(Self(text.into()))
        } else {
            Err(NameError(format!(
                "project key {text:?} is refused: it must have 1 to 55 letters, digits, '-', '.' or '/' and no '_'; rename the file, Secret or Project"
            )))
        }
    }

    /// The label value `cluster-<key>`, with `/` written as `_`.
    pub fn label(&self) -> String {
        format!("cluster-{}", self.0.replace('/', "_"))
    }
}

impl HubNamespace {
    /// The hub namespace of the project namespace with this UID.
    pub fn of(namespace_uid: &str) -> Self {
        Self(format!("ns-{namespace_uid}").into())
    }

    /// Reads a hub namespace's name; `None` if it cannot belong to a project.
    pub fn parse(name: &str) -> Option<Self> {
        name.strip_prefix("ns-")
            .filter(|uid| !uid.is_empty())
            .map(|_| Self(name.into()))
    }
}

/// Name on the hub of a Secret that a member returns: it begins with the member, whose name has no dot, so that admission keeps it
/// for this member (contract: clusters.md §7 rule 2).
pub fn return_name(member: &str, name: &str) -> String {
    format!("{member}.{name}")
}

/// First `digits` hex digits of SHA-256.
pub fn short_hash(text: &str, digits: usize) -> String {
    let mut hash = hex(&Sha256::digest(text.as_bytes()));
    hash.truncate(digits);
    hash
}

/// Bytes as hex digits in lower case.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn dashed(text: &str) -> String {
    text.to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        })
        .collect()
}

/// The name of the policy of a city or location, if that is free: `<prefix><value in lower case>`; `None` if that is no
/// object name.
pub fn policy_name(prefix: &str, value: &str) -> Option<String> {
    let name = format!("{prefix}{}", value.to_lowercase());
    is_object_name(&name).then_some(name)
}

/// The name of the policy if the plain one is invalid or taken by another value.
pub fn policy_name_hashed(prefix: &str, value: &str) -> String {
    format!(
        "{prefix}{}.{}",
        dashed(value).trim_matches('-'),
        short_hash(value, 8)
    )
}

/// The city set of these codes: a label value and part of a policy's name, a pure function of the codes.
///
/// `None` for no codes: a namespace's set is never empty.
pub fn city_set(cities: &std::collections::BTreeSet<CityCode>) -> Option<String> {
    if cities.is_empty() {
        return None;
    }
    let mut lower: Vec<String> = cities.iter().map(|c| c.as_str().to_lowercase()).collect();
    lower.sort();
    let plain = lower.join("-");
    let simple = cities.iter().all(|c| {
        c.as_str()
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    });
    if simple && plain.len() <= 50 {
        return Some(plain);
    }
    let codes: Vec<&str> = cities.iter().map(CityCode::as_str).collect();
    let mut head = dashed(&plain);
    head.truncate(40);
    Some(format!(
        "{}.{}",
        head.trim_matches('-'),
        short_hash(&codes.join("\n"), 8)
    ))
}

/// Behind the name of a set whose policy preserves what members have (contract: clusters.md §2 rule 7).
const PRESERVING: &str = ".keep";

/// The city set of the same codes whose policy preserves what members have.
pub fn preserving_set(set: &str) -> String {
    format!("{}{PRESERVING}", plain_set(set))
}

/// The city set of the same codes whose policy does not preserve.
pub fn plain_set(set: &str) -> &str {
    set.strip_suffix(PRESERVING).unwrap_or(set)
}

/// True if the policy of a set preserves what members have.
pub fn is_preserving_set(set: &str) -> bool {
    set.ends_with(PRESERVING)
}

/// The codes of a city set, if its name tells them; one that carries a hash does not.
pub fn cities_of_set(set: &str) -> Option<std::collections::BTreeSet<CityCode>> {
    let set = plain_set(set);
    let codes = set.split('-').map(|code| CityCode::parse(&code.to_uppercase()));
    let cities = codes.collect::<Result<_, _>>().ok()?;
    (city_set(&cities).as_deref() == Some(set)).then_some(cities)
}

/// Name of a city set's cluster policy.
pub fn city_set_policy(set: &str) -> String {
    format!("{CITY_SET_PREFIX}{set}")
}

/// The city set whose cluster policy has this name; `None` for the name of another policy.
pub fn city_set_of(policy: &str) -> Option<&str> {
    policy.strip_prefix(CITY_SET_PREFIX)
}

const CITY_SET_PREFIX: &str = "cities-";

#[cfg(test)]
mod tests {
    use super::*;

    fn set(codes: &[&str]) -> Option<String> {
        city_set(&codes.iter().map(|c| CityCode::parse(c).unwrap()).collect())
    }

    #[test]
    fn an_ordinal_has_one_form() {
        for (text, number) in [("0", Some(0)), ("7", Some(7)), ("4294967295", Some(u32::MAX))] {
            assert_eq!(ordinal(text), number);
        }
        for text in ["", "00", "01", "-1", "+1", " 1", "1a", "4294967296", "١"] {
            assert_eq!(ordinal(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_city_code_is_a_label_value_and_keeps_its_case() {
        assert_eq!(CityCode::parse("DFW").unwrap().as_str(), "DFW");
        for bad in ["", "a b", "-a", "a-", &"x".repeat(64)] {
            let error = CityCode::parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("city code {bad:?} is")), "{error}");
        }
    }

    #[test]
    fn a_project_key_drops_its_slash_and_refuses_underscores() {
        assert_eq!(
            ProjectKey::parse("/shop/prod").unwrap().label(),
            "cluster-shop_prod"
        );
        assert!(ProjectKey::parse("a_b").is_err());
        assert!(ProjectKey::parse(&"x".repeat(56)).is_err());
    }

    #[test]
    fn city_sets_are_plain_where_they_can_be_and_never_shared_otherwise() {
        assert_eq!(set(&["LHR", "DFW"]).unwrap(), "dfw-lhr");
        assert_eq!(set(&[]), None);
        assert_ne!(set(&["dfw"]), set(&["DFW"]));
        assert!(set(&["dfw"]).unwrap().starts_with("dfw."));
        assert!(is_object_name(&city_set_policy(&set(&["a_b", "C.d"]).unwrap())));
    }

    #[test]
    fn a_plain_city_set_tells_its_codes_and_no_other_text_does() {
        let told = |set: &str| cities_of_set(set).map(|cities| city_set(&cities).unwrap());
        assert_eq!(cities_of_set("dfw-lhr").unwrap().len(), 2);
        assert_eq!(told("dfw-lhr").as_deref(), Some("dfw-lhr"));
        for other in ["", "lhr-dfw", "dfw-dfw", "DFW", "dfw.", &set(&["dfw"]).unwrap()] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn a_policy_of_a_code_that_is_no_object_name_carries_a_hash() {
        let code = CityCode::parse("a_b").unwrap();
        assert_eq!(policy_name("city-", code.as_str()), None);
        assert!(is_object_name(&policy_name_hashed("city-", code.as_str())));
    }
}
