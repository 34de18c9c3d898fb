//! Reads log lines with a parser that refuses a line with the same key twice, at any depth.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::{fmt, io, path::Path};

/// A JSON value whose objects have each key once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate keys")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, _>()? {
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {key} is there twice")));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

/// One log line.
pub(crate) fn parse(line: &str) -> Result<Value, String> {
    let parsed = serde_json::from_str(line).map(|Strict(value)| value);
    parsed.map_err(|error| format!("{error}: {line}"))
}

/// The lines of all logs of a folder that cannot be read, and the number of all lines.
pub(crate) fn faults(folder: &Path) -> io::Result<(Vec<String>, usize)> {
    let (mut faults, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "log") {
            continue;
        }
        let text = std::fs::read(&path)?;
        for line in String::from_utf8_lossy(&text).lines() {
            count += 1;
            let fault = parse(line)
                .err()
                .map(|error| format!("{}: {error}", path.display()));
            faults.extend(fault);
        }
    }
    Ok((faults, count))
}
