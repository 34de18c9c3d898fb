//! Selectors: label selectors, policies' selectors of templates, and placements' selectors of members.

use kube::api::DynamicObject;
use serde_json::Value;
use std::collections::BTreeMap;

/// How specifically a policy's selector matches a template; a greater value is more specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// All objects of the kind.
    All,
    /// By labels.
    Labels,
    /// By name.
    Name,
}

/// True if the labels satisfy a `LabelSelector`. An unknown operator matches nothing.
pub(super) fn labels_match(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter()
            .filter_map(|text| text.as_str().map(ToOwned::to_owned))
            .collect()
    };
    let equal = selector["matchLabels"].as_object().is_none_or(|map| {
        map.iter()
            .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str())
    });
    let expressions = selector["matchExpressions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    equal
        && expressions.iter().all(|expression| {
            let found = expression["key"].as_str().and_then(|key| labels.get(key));
            let values = texts(&expression["values"]);
            match expression["operator"].as_str() {
                Some("In") => found.is_some_and(|value| values.contains(value)),
                Some("NotIn") => found.is_none_or(|value| !values.contains(value)),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}

/// The most specific match of a policy's selectors with an object; `None` if none matches.
pub(super) fn selectors_match(selectors: &[Value], object: &DynamicObject) -> Option<Match> {
    selectors
        .iter()
        .filter_map(|selector| selector_match(selector, object))
        .max()
}

fn selector_match(selector: &Value, object: &DynamicObject) -> Option<Match> {
    let text = |key: &str| selector[key].as_str().unwrap_or_default();
    let types = object.types.as_ref()?;
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let foreign = !text("namespace").is_empty() && text("namespace") != namespace;
    if types.api_version != text("apiVersion") || types.kind != text("kind") || foreign {
        return None;
    }
    if !text("name").is_empty() {
        return (object.metadata.name.as_deref() == Some(text("name"))).then_some(Match::Name);
    }
    match &selector["labelSelector"] {
        Value::Null => Some(Match::All),
        labels => labels_match(
            labels,
            object.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()),
        )
        .then_some(Match::Labels),
    }
}

/// True if a placement's cluster affinity admits a member. No affinity admits all members.
pub(super) fn cluster_matches(affinity: &Value, cluster: &DynamicObject) -> bool {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let list = |key: &str| affinity[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if list("exclude").iter().any(|excluded| excluded == name) {
        return false;
    }
    let selected = match &affinity["labelSelector"] {
        Value::Null => true,
        labels => labels_match(
            labels,
            cluster.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()),
        ),
    };
    let chosen = list("clusterNames");
    selected && (chosen.is_empty() || chosen.iter().any(|wanted| wanted == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn object(labels: &Value) -> DynamicObject {
        from_value(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "n", "labels": labels}
        }))
        .unwrap()
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
        let labels = [("city".to_owned(), "DFW".to_owned())].into();
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
        let cell: DynamicObject =
            from_value(json!({"metadata": {"name": "dfw-1", "labels": {"city": "DFW"}}})).unwrap();
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
