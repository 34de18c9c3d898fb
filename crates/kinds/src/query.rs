//! `JSONPath` queries (RFC 9535), compiled once.

use jsonpath_rust::{
    parser::{model::JpQuery, parse_json_path},
    query::js_path_process,
};
use serde_json::Value;
use std::sync::Arc;

/// The error for a text that is no `JSONPath`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no JSONPath: {reason}; write one like $.spec.cityCode or $.spec.volumes[*].secret")]
pub struct QueryError {
    text: String,
    reason: String,
}

/// A compiled `JSONPath`.
#[derive(Debug, Clone)]
pub struct Query {
    text: Arc<str>,
    parsed: JpQuery,
}

impl Query {
    /// Compiles a path that begins with `$`.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let refused = |reason: String| QueryError {
            text: text.to_owned(),
            reason,
        };
        let parsed = parse_json_path(text).map_err(|error| {
            let reason = error.to_string();
            let last = reason
                .lines()
                .rev()
                .map(|line| line.trim_matches([' ', '=', '|']))
                .find(|line| !line.is_empty());
            refused(last.unwrap_or("it cannot be parsed").to_owned())
        })?;
        Ok(Self {
            text: text.into(),
            parsed,
        })
    }

    /// The source text of the path.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All values that the path selects, in document order.
    pub fn all<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let found = js_path_process(&self.parsed, value).unwrap_or_default();
        found
            .into_iter()
            .map(jsonpath_rust::query::QueryRef::val)
            .collect()
    }

    /// The first value that the path selects.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.all(value).into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_finds_values_in_the_order_of_the_document() {
        let query = Query::parse("$.v[*].secret.name").unwrap();
        let value = json!({"v": [{"secret": {"name": "b"}}, {"x": 1}, {"secret": {"name": "a"}}]});
        assert_eq!(query.all(&value), [&json!("b"), &json!("a")]);
        assert_eq!(query.first(&value), Some(&json!("b")));
        assert_eq!(query.first(&json!(null)), None);
        assert_eq!(query.text(), "$.v[*].secret.name");
    }

    #[test]
    fn a_text_that_is_no_path_is_refused_with_an_example() {
        for bad in ["", "spec.x", "$.spec[", "$.."] {
            let error = Query::parse(bad).unwrap_err().to_string();
            assert!(error.contains("is no JSONPath"), "{bad}: {error}");
        }
    }
}
