//! Label and field selectors.

use crate::{meta, status::Status};
use serde_json::Value;

/// What a list or a watch is narrowed to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) namespace: String,
    labels: Vec<Requirement>,
    /// Field, value, and whether it must be equal.
    fields: Vec<(String, String, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
}

impl Selector {
    /// Reads selectors as a query has them.
    pub(crate) fn parse(namespace: &str, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = split(labels)
            .into_iter()
            .map(requirement)
            .collect::<Result<_, _>>()?;
        let fields = fields
            .split(',')
            .filter(|part| !part.is_empty())
            .map(field)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            namespace: namespace.to_owned(),
            labels,
            fields,
        })
    }

    /// Whether it is narrowed by more than the namespace.
    pub(crate) fn is_narrow(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The name, if the selector admits one only.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let in_namespace = self.namespace.is_empty() || meta::namespace(object) == self.namespace;
        let field = |(name, value, equal): &(String, String, bool)| {
            let actual = match name.as_str() {
                "metadata.name" => meta::name(object),
                _ => meta::namespace(object),
            };
            (actual == value) == *equal
        };
        in_namespace && self.fields.iter().all(field) && self.labels.iter().all(|r| r.matches(object))
    }
}

impl Requirement {
    fn matches(&self, object: &Value) -> bool {
        let found = meta::labels(object)
            .and_then(|labels| labels.get(&self.key))
            .and_then(Value::as_str);
        let among = |values: &[String]| found.is_some_and(|found| values.iter().any(|value| value == found));
        match &self.test {
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
            Test::Exists => found.is_some(),
            Test::Missing => found.is_none(),
        }
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn requirement(text: &str) -> Result<Requirement, Status> {
    let text = text.trim();
    let made = |key: &str, test| {
        Ok(Requirement {
            key: key.trim().to_owned(),
            test,
        })
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    for (word, negative) in [
        (" notin ", true),
        (" notin(", true),
        (" in ", false),
        (" in(", false),
    ] {
        if let Some((key, list)) = text.split_once(word) {
            let list = list.trim().trim_start_matches('(').trim_end_matches(')');
            let values = list.split(',').map(|value| value.trim().to_owned()).collect();
            return made(
                key,
                if negative {
                    Test::NotIn(values)
                } else {
                    Test::In(values)
                },
            );
        }
    }
    if let Some((key, value)) = text.split_once("!=") {
        return made(key, Test::NotIn(one(value)));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return made(key, Test::In(one(value)));
    }
    if let Some(key) = text.strip_prefix('!') {
        return made(key, Test::Missing);
    }
    if text.contains(|c: char| c.is_whitespace() || "()<>".contains(c)) {
        return Err(Status::bad_request(format!(
            "unable to parse requirement: {text}"
        )));
    }
    made(text, Test::Exists)
}

fn field(text: &str) -> Result<(String, String, bool), Status> {
    let (name, value, equal) = if let Some((name, value)) = text.split_once("!=") {
        (name, value, false)
    } else if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (name, value, true)
    } else {
        let message = format!("invalid selector: '{text}'; can't understand '{text}'");
        return Err(Status::bad_request(message));
    };
    if !["metadata.name", "metadata.namespace"].contains(&name) {
        return Err(Status::bad_request(format!("field label not supported: {name}")));
    }
    Ok((name.to_owned(), value.to_owned(), equal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(labels: &str, fields: &str) -> bool {
        let object = json!({"metadata": {"name": "n", "namespace": "s",
            "labels": {"app": "web", "tier": "front"}}});
        Selector::parse("", labels, fields).unwrap().matches(&object)
    }

    #[test]
    fn labels_are_compared_as_kubernetes_does() {
        for yes in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "other!=x",
            "app",
            "!other",
            "app in (db, web)",
            "app notin (db)",
            "app in (web),tier=front",
            "other notin (x)",
        ] {
            assert!(matches(yes, ""), "{yes}");
        }
        for no in [
            "app=db",
            "app!=web",
            "other",
            "!app",
            "app in (db)",
            "app notin (web),tier",
            "app=web,tier=x",
        ] {
            assert!(!matches(no, ""), "{no}");
        }
        assert!(Selector::parse("", "a b c", "").is_err());
    }

    #[test]
    fn two_fields_can_be_selected() {
        assert!(matches("", "metadata.name=n,metadata.namespace!=x"));
        assert!(!matches("", "metadata.name!=n"));
        assert_eq!(Selector::parse("", "", "spec.x=1").unwrap_err().code, 400);
    }
}
