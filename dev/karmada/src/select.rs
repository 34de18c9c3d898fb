//! Selectors: label selectors, policies' selectors of templates, and placements' selectors of members.

use crate::{Object, list};
use serde_json::Value;

/// How specifically a policy's selector matches a template; a greater value is more specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// All objects of the kind.
    All,
    /// By labels.
    Labels,
    /// By name.
    Name,
}

/// True if an object's labels satisfy a `LabelSelector`. An unknown operator matches nothing.
pub fn labels_match(selector: &Value, object: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().is_none_or(|map| {
        map.iter()
            .all(|(key, value)| object.label(key) == Some(value.as_str().unwrap_or_default()))
    });
    equal
        && list(&selector["matchExpressions"]).iter().all(|expression| {
            let found = expression["key"].as_str().and_then(|key| object.label(key));
            let listed = |value: &str| list(&expression["values"]).iter().any(|one| one == value);
            match expression["operator"].as_str() {
                Some("In") => found.is_some_and(listed),
                Some("NotIn") => found.is_none_or(|value| !listed(value)),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}

/// The selectors of a policy.
pub fn selectors(policy: &Value) -> &[Value] {
    list(&policy["spec"]["resourceSelectors"])
}

/// The most specific match of a policy's selectors with an object; `None` if none matches.
pub fn selectors_match(selectors: &[Value], object: &Value) -> Option<Match> {
    selectors
        .iter()
        .filter_map(|selector| selector_match(selector, object))
        .max()
}

fn selector_match(selector: &Value, object: &Value) -> Option<Match> {
    let text = |key: &str| selector[key].as_str().unwrap_or_default();
    let foreign = !text("namespace").is_empty() && text("namespace") != object.namespace();
    if object.api_version() != text("apiVersion") || object.kind() != text("kind") || foreign {
        return None;
    }
    if !text("name").is_empty() {
        return (object.name() == text("name")).then_some(Match::Name);
    }
    match &selector["labelSelector"] {
        Value::Null => Some(Match::All),
        labels => labels_match(labels, object).then_some(Match::Labels),
    }
}

/// True if a placement's cluster affinity admits a member. No affinity admits all members.
pub fn cluster_matches(affinity: &Value, cluster: &Value) -> bool {
    let named = |key: &str| list(&affinity[key]).iter().any(|name| name == cluster.name());
    if named("exclude") {
        return false;
    }
    let selected = match &affinity["labelSelector"] {
        Value::Null => true,
        labels => labels_match(labels, cluster),
    };
    selected && (list(&affinity["clusterNames"]).is_empty() || named("clusterNames"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(labels: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "n", "labels": labels}})
    }

    #[test]
    fn the_closest_selector_counts() {
        let a = object(&json!({"city": "DFW"}));
        let by = |extra: Value| {
            let mut selector = json!({"apiVersion": "v1", "kind": "Secret"});
            selector
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            selector
        };
        let all = by(json!({}));
        let labels = by(json!({"labelSelector": {"matchLabels": {"city": "DFW"}}}));
        let name = by(json!({"name": "a", "labelSelector": {"matchLabels": {"city": "LHR"}}}));
        assert_eq!(selectors_match(std::slice::from_ref(&all), &a), Some(Match::All));
        assert_eq!(
            selectors_match(&[all.clone(), labels.clone()], &a),
            Some(Match::Labels)
        );
        assert_eq!(selectors_match(&[name, labels], &a), Some(Match::Name));
        assert_eq!(selectors_match(&[by(json!({"namespace": "m"}))], &a), None);
        assert_eq!(
            selectors_match(
                &[by(json!({"labelSelector": {"matchLabels": {"city": "dfw"}}}))],
                &a
            ),
            None
        );
    }

    #[test]
    fn expressions_are_joined_by_and() {
        let labels = json!({"metadata": {"labels": {"city": "DFW"}}});
        let one = |operator: &str, key: &str, values: Value| {
            labels_match(
                &json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}),
                &labels,
            )
        };
        assert!(one("In", "city", json!(["LHR", "DFW"])));
        assert!(!one("In", "city", json!(["LHR"])));
        assert!(one("NotIn", "town", json!(["LHR"])));
        assert!(!one("NotIn", "city", json!(["DFW"])));
        assert!(one("Exists", "city", json!(null)));
        assert!(one("DoesNotExist", "town", json!(null)));
        assert!(!one("Like", "city", json!(["D"])));
    }

    #[test]
    fn affinity_admits_members_by_label_and_name() {
        let cell = json!({"metadata": {"name": "dfw-1", "labels": {"city": "DFW"}}});
        assert!(cluster_matches(&json!(null), &cell));
        assert!(cluster_matches(
            &json!({"labelSelector": {"matchLabels": {"city": "DFW"}}}),
            &cell
        ));
        assert!(!cluster_matches(
            &json!({"labelSelector": {"matchLabels": {"city": "LHR"}}}),
            &cell
        ));
        assert!(!cluster_matches(&json!({"exclude": ["dfw-1"]}), &cell));
        assert!(!cluster_matches(&json!({"clusterNames": ["lhr-1"]}), &cell));
    }
}
