//! YAML as kubectl reads it, for every file that people write. kubectl's parser (sigs.k8s.io/yaml) resolves plain scalars by
//! YAML 1.1: `0400` is 256, `yes`, `y` and `on` are true, `1_000` is 1000, `1:30` is text. The parser here knows the same
//! forms. Two answers are deliberately stricter or by the specification: a key that occurs twice is an error, where kubectl
//! takes the last one, and a field of a mapping wins over a merge key wherever the key stands.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, json};
use serde_saphyr::Options;
use std::fmt;

/// The parser's error.
pub use serde_saphyr::Error;

/// Whole numbers up to this one have an exact floating-point form.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn options() -> Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

/// Reads a text that has exactly one document.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

/// Reads all documents of a text, without the empty ones. Keys are text, as in the JSON that kubectl sends: `yes` as a key is
/// `true`, and `0x10` is `16`.
pub fn documents(text: &str) -> Result<Vec<Value>, Error> {
    let all: Vec<Node> = serde_saphyr::from_multiple_with_options(text, options())?;
    let filled = all.into_iter().filter(|Node(value)| !value.is_null());
    Ok(filled.map(|Node(value)| value).collect())
}

/// A value whose plain scalars are resolved, keys included.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Resolve).map(Self)
    }
}

struct Resolve;

impl<'de> Visitor<'de> for Resolve {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(json!(value))
    }

    /// A whole number stays one however it is written, e.g. `1e3` and `08`.
    #[allow(clippy::cast_possible_truncation)]
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        let is_whole = value.fract() == 0.0 && value.abs() < EXACT;
        Ok(if is_whole {
            json!(value as i64)
        } else {
            json!(value)
        })
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(json!(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Node(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(Node(key)) = entries.next_key()? {
            let key = match key {
                Value::String(text) => text,
                Value::Bool(_) | Value::Number(_) => key.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(A::Error::custom(format!("{key} cannot be a key")));
                }
            };
            let Node(value) = entries.next_value()?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key:?} occurs twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Texts and the JSON that sigs.k8s.io/yaml v1.6.0, which kubectl 1.36 reads with, makes of them.
    const TABLE: &[(&str, &str)] = &[
        ("0400", "256"),
        ("0600", "384"),
        ("-0400", "-256"),
        ("0_400", "256"),
        ("0o400", "256"),
        ("08", "8"),
        ("00", "0"),
        ("0x1F", "31"),
        ("0b101", "5"),
        ("1_000", "1000"),
        ("yes", "true"),
        ("On", "true"),
        ("NO", "false"),
        ("off", "false"),
        ("y", "true"),
        ("N", "false"),
        ("~", "null"),
        ("1:30", r#""1:30""#),
        ("2001-12-14", r#""2001-12-14""#),
        ("1e3", "1000"),
        ("1.0", "1"),
        (".5", "0.5"),
        ("1e1", "10"),
        ("100m", r#""100m""#),
        ("'0400'", r#""0400""#),
        ("\"yes\"", r#""yes""#),
        ("!!str 0400", r#""0400""#),
        ("18446744073709551615", "18446744073709551615"),
        ("[0400, yes, {on: off}]", r#"[256,true,{"true":false}]"#),
        ("{0x10: a, 1.5: b}", r#"{"16":"a","1.5":"b"}"#),
        (
            "{a: &x {b: 0400}, c: {<<: *x, d: 2}}",
            r#"{"a":{"b":256},"c":{"b":256,"d":2}}"#,
        ),
        ("{<<: {a: 1, b: 2}, a: 3}", r#"{"a":3,"b":2}"#),
        ("{<<: [{b: 1}, {c: 2}]}", r#"{"b":1,"c":2}"#),
        ("k: 0400 # mode", r#"{"k":256}"#),
        ("k: |\n  0400\n", r#"{"k":"0400\n"}"#),
        ("a: 1\n---\n", r#"{"a":1}"#),
        ("{\"a\": 1}", r#"{"a":1}"#),
    ];

    #[test]
    fn scalars_keys_and_merges_are_those_of_kubectl() {
        for (text, expected) in TABLE {
            let expected: Value = serde_json::from_str(expected).unwrap();
            let found = documents(text).unwrap();
            let expected: Vec<Value> = [expected].into_iter().filter(|value| !value.is_null()).collect();
            assert_eq!(found, expected, "{text}");
        }
        let typed: std::collections::BTreeMap<String, u32> = read("mode: 0440").unwrap();
        assert_eq!(typed["mode"], 288);
    }

    #[test]
    fn a_key_twice_and_a_key_that_is_no_text_are_errors() {
        for text in [
            "{a: 1, a: 2}",
            "{1: a, \"1\": b}",
            "{yes: a, on: b}",
            "{~: a}",
            "{[1]: a}",
        ] {
            assert!(documents(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for (text, _) in TABLE {
            let printed = serde_saphyr::to_string(&json!({ "a": text, *text: "key" })).unwrap();
            assert_eq!(
                documents(&printed).unwrap(),
                [json!({ "a": text, *text: "key" })],
                "{printed}"
            );
        }
    }
}
