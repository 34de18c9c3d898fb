//! `JSONPath` queries (RFC 9535), compiled once.

use jsonpath_rust::{
    parser::{
        model::{JpQuery, Segment, Selector},
        parse_json_path,
    },
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

    /// The names of a path that only goes from member to member, e.g. `$.metadata.labels['a/b']`; `None` for every other.
    pub fn members(&self) -> Option<Vec<String>> {
        let names = self.parsed.segments.iter().map(|segment| match segment {
            Segment::Selector(Selector::Name(name)) => Some(plain(name)),
            Segment::Selector(_) | Segment::Selectors(_) | Segment::Descendant(_) => None,
        });
        names.collect()
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

/// A name without the quotes that the parser leaves around it.
fn plain(name: &str) -> String {
    let inner = ['\'', '"'].iter().find_map(|quote| {
        let after = name.strip_prefix(*quote)?;
        after.strip_suffix(*quote)
    });
    inner.unwrap_or(name).to_owned()
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
    fn only_a_path_from_member_to_member_has_names() {
        for (path, names) in [
            ("$.spec.cityCode", Some(vec!["spec", "cityCode"])),
            (
                "$.metadata.labels['topology.datum.net/city-code']",
                Some(vec!["metadata", "labels", "topology.datum.net/city-code"]),
            ),
            ("$['spec'][\"city\"]", Some(vec!["spec", "city"])),
            ("$.spec.cities[*]", None),
            ("$.spec.cities[0]", None),
            ("$..city", None),
            ("$.spec['a','b']", None),
            ("$.spec[?@.city].city", None),
        ] {
            let found = Query::parse(path).unwrap().members();
            let names = names.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(found, names, "{path}");
        }
    }

    #[test]
    fn a_text_that_is_no_path_is_refused_with_an_example() {
        for bad in ["", "spec.x", "$.spec[", "$.."] {
            let error = Query::parse(bad).unwrap_err().to_string();
            assert!(error.contains("is no JSONPath"), "{bad}: {error}");
        }
    }
}
