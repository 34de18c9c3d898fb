//! A label selector, as a placement has one over the topology of locations (contract: locations.md §2.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Selects objects by labels: all of its labels and expressions must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels, each with the value that it must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Expressions on labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelExpression>,
}

/// An expression on one label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelExpression {
    /// Key of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values of `In` and `NotIn`, at least one; none of the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// True if it has neither a label nor an expression, so that it would match everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// True if these labels match. An empty selector matches nothing here: it is refused, and must not spread a Workload
    /// over all locations where it was stored in spite of that.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.is_empty()
            && self
                .match_labels
                .iter()
                .all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|e| e.matches(labels))
    }
}

impl LabelExpression {
    /// True if the operator is known, and has values exactly where it needs them.
    pub fn is_sound(&self) -> bool {
        match &*self.operator {
            "In" | "NotIn" => !self.values.is_empty(),
            "Exists" | "DoesNotExist" => self.values.is_empty(),
            _ => false,
        }
    }

    /// As Kubernetes matches: a label that is absent is not in any list. An unknown operator matches nothing.
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &*self.operator {
            "In" => value.is_some_and(|v| self.values.contains(v)),
            "NotIn" => value.is_none_or(|v| !self.values.contains(v)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn matches(selector: Value, labels: &[(&str, &str)]) -> bool {
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        selector.matches(&labels)
    }

    #[test]
    fn all_labels_and_expressions_must_match_and_an_empty_selector_matches_nothing() {
        let dfw: &[(&str, &str)] = &[("city", "DFW"), ("region", "us")];
        assert!(!matches(json!({}), dfw));
        assert!(matches(json!({"matchLabels": {"city": "DFW"}}), dfw));
        assert!(!matches(
            json!({"matchLabels": {"city": "DFW", "zone": "a"}}),
            dfw
        ));
        let one = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, wanted) in [
            (one("city", "In", &["LHR", "DFW"]), true),
            (one("city", "In", &["LHR"]), false),
            (one("zone", "In", &["a"]), false),
            (one("city", "NotIn", &["LHR"]), true),
            (one("city", "NotIn", &["DFW"]), false),
            (one("zone", "NotIn", &["a"]), true),
            (one("city", "Exists", &[]), true),
            (one("zone", "Exists", &[]), false),
            (one("zone", "DoesNotExist", &[]), true),
            (one("city", "DoesNotExist", &[]), false),
            (one("city", "Like", &["DFW"]), false),
        ] {
            assert_eq!(matches(selector.clone(), dfw), wanted, "{selector}");
        }
        let both = json!({"matchLabels": {"region": "eu"},
            "matchExpressions": [{"key": "city", "operator": "Exists"}]});
        assert!(!matches(both, dfw));
    }
}
