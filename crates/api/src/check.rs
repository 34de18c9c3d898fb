//! Checks a value against a structural schema as the API server does: types, required fields, bounds, patterns,
//! unique keys of lists. CEL is not evaluated here.

use regex::Regex;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, net::IpAddr};

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `V1` to `V33`, or `schema` for a bound, a type or a missing field.
    pub rule: &'static str,
    /// Where, e.g. `spec.placements[0].name`.
    pub path: String,
    /// Description of the fault, for people.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// What a broken schema rule is called in a [`Problem`].
pub(super) const RULE: &str = "schema";

/// A schema with its expressions compiled.
pub(super) struct Checker {
    schema: Value,
    patterns: BTreeMap<String, Regex>,
}

impl Checker {
    /// Compiles the schema's expressions; an error names the one that is none.
    pub(super) fn new(schema: Value) -> Result<Self, regex::Error> {
        let mut patterns = BTreeMap::new();
        collect(&schema, &mut patterns)?;
        Ok(Self { schema, patterns })
    }

    /// All problems of `value`, which stands at `path`.
    pub(super) fn check(&self, path: &str, value: &Value) -> Vec<Problem> {
        let mut found = Vec::new();
        self.node(path, &self.schema, value, &mut found);
        found
    }

    fn node(&self, path: &str, schema: &Value, value: &Value, found: &mut Vec<Problem>) {
        let any_scalar = schema["x-kubernetes-int-or-string"] == true;
        match (schema["type"].as_str(), value) {
            (Some("object"), Value::Object(map)) => self.object(path, schema, map, found),
            (Some("array"), Value::Array(items)) => self.list(path, schema, items, found),
            (Some("string"), Value::String(text)) => self.text(path, schema, text, found),
            (None, Value::String(text)) if any_scalar => self.text(path, schema, text, found),
            (Some("integer"), Value::Number(number)) => integer(path, schema, number.as_i64(), found),
            (Some("boolean"), Value::Bool(_)) => {}
            (None, Value::Number(number)) if any_scalar && number.is_i64() => {
                integer(path, schema, number.as_i64(), found);
            }
            (wanted, _) => {
                let wanted = wanted.unwrap_or("integer or string");
                found.push(problem(path, format!("must be of type {wanted}")));
            }
        }
    }

    fn object(&self, path: &str, schema: &Value, map: &Map<String, Value>, found: &mut Vec<Problem>) {
        let properties = &schema["properties"];
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !map.contains_key(name) && properties[name]["default"].is_null() {
                found.push(problem(&format!("{path}.{name}"), "is required".to_owned()));
            }
        }
        if let Some(max) = limit(schema, "maxProperties").filter(|max| map.len() > *max) {
            found.push(problem(
                path,
                format!("has {} keys; at most {max} are allowed", map.len()),
            ));
        }
        for (key, value) in map {
            if let Some(child) = properties.get(key) {
                self.node(&format!("{path}.{key}"), child, value, found);
            } else if let Some(child) = schema.get("additionalProperties") {
                self.node(&format!("{path}[{key}]"), child, value, found);
            }
        }
    }

    fn list(&self, path: &str, schema: &Value, items: &[Value], found: &mut Vec<Problem>) {
        if let Some(min) = limit(schema, "minItems").filter(|min| items.len() < *min) {
            found.push(problem(path, format!("must have at least {min} items")));
        }
        if let Some(max) = limit(schema, "maxItems").filter(|max| items.len() > *max) {
            found.push(problem(
                path,
                format!("has {} items; at most {max} are allowed", items.len()),
            ));
        }
        let key = schema["x-kubernetes-list-map-keys"][0].as_str();
        let is_set = schema["x-kubernetes-list-type"] == "set";
        for (i, item) in items.iter().enumerate() {
            let identity = |item: &Value| key.map_or_else(|| item.clone(), |k| item[k].clone());
            if (key.is_some() || is_set) && items[..i].iter().any(|o| identity(o) == identity(item)) {
                found.push(problem(
                    &format!("{path}[{i}]"),
                    format!("{} is there twice", identity(item)),
                ));
            }
            self.node(&format!("{path}[{i}]"), &schema["items"], item, found);
        }
    }

    fn text(&self, path: &str, schema: &Value, text: &str, found: &mut Vec<Problem>) {
        let length = text.chars().count();
        if let Some(min) = limit(schema, "minLength").filter(|min| length < *min) {
            found.push(problem(path, format!("must have at least {min} characters")));
        }
        if let Some(max) = limit(schema, "maxLength").filter(|max| length > *max) {
            found.push(problem(
                path,
                format!("has {length} characters; at most {max} are allowed"),
            ));
        }
        let pattern = schema["pattern"].as_str().and_then(|p| self.patterns.get(p));
        if let Some(pattern) = pattern.filter(|p| !p.is_match(text)) {
            found.push(problem(path, format!("{text:?} must match {}", pattern.as_str())));
        }
        if schema["format"] == "cidr" && !is_cidr(text) {
            found.push(problem(path, format!("{text:?} is no CIDR such as 10.0.0.0/8")));
        }
        if let Some(allowed) = schema["enum"]
            .as_array()
            .filter(|allowed| !allowed.iter().any(|a| a == text))
        {
            let allowed: Vec<_> = allowed.iter().filter_map(Value::as_str).collect();
            found.push(problem(
                path,
                format!("{text:?} is not one of {}", allowed.join(", ")),
            ));
        }
    }
}

fn integer(path: &str, schema: &Value, number: Option<i64>, found: &mut Vec<Problem>) {
    let Some(number) = number else {
        found.push(problem(path, "must be of type integer".to_owned()));
        return;
    };
    let bound = |key: &str| schema[key].as_f64();
    #[allow(
        clippy::cast_precision_loss,
        reason = "bounds are small; a float holds them exactly"
    )]
    let value = number as f64;
    if schema["format"] == "int32" && i32::try_from(number).is_err() {
        found.push(problem(path, format!("{number} does not fit 32 bits")));
    } else if let Some(min) = bound("minimum").filter(|min| value < *min) {
        found.push(problem(path, format!("{number} is below {min}")));
    } else if let Some(max) = bound("maximum").filter(|max| value > *max) {
        found.push(problem(path, format!("{number} is above {max}")));
    }
}

fn limit(schema: &Value, key: &str) -> Option<usize> {
    schema[key].as_u64().and_then(|n| usize::try_from(n).ok())
}

fn problem(path: &str, message: String) -> Problem {
    Problem {
        rule: RULE,
        path: path.to_owned(),
        message,
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else {
        return false;
    };
    let widest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    prefix.bytes().all(|b| b.is_ascii_digit()) && prefix.parse::<u8>().is_ok_and(|p| p <= widest)
}

fn collect(schema: &Value, patterns: &mut BTreeMap<String, Regex>) -> Result<(), regex::Error> {
    if let Some(text) = schema["pattern"].as_str() {
        patterns.insert(text.to_owned(), Regex::new(text)?);
    }
    for child in schema["properties"].as_object().into_iter().flat_map(Map::values) {
        collect(child, patterns)?;
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            collect(&schema[key], patterns)?;
        }
    }
    Ok(())
}
