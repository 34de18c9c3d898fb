//! Specs of the Karmada policies that the gateway writes (contract: federation.md §2.2, §2.3).

use super::route::Route;
use fedgate_api::{
    keys,
    names::{self, CityCode},
};
use fedgate_engine::{
    diff::Digest,
    plan::{ExactFields, ServerDefault},
};
use fedgate_kinds::FederatedKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `spec` of the `ClusterPropagationPolicy` that delivers the Namespaces of a city set.
pub fn city_set_spec(set: &str, cities: &BTreeSet<CityCode>, cluster_label: &str) -> Value {
    let values: Vec<&str> = cities.iter().map(CityCode::as_str).collect();
    let mut spec = json!({
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace",
            "labelSelector": {"matchLabels": {keys::CITIES: set}}}],
        "placement": {"clusterAffinity": {"labelSelector": {
            "matchExpressions": [{"key": cluster_label, "operator": "In", "values": values}]}}},
    });
    if names::is_kept_set(set) {
        spec["preserveResourcesOnDeletion"] = json!(true);
        spec["conflictResolution"] = json!("Overwrite");
        spec["placement"]["clusterTolerations"] = json!([{"operator": "Exists"}]);
    }
    spec
}

/// `spec` of the `PropagationPolicy` that sends a hub namespace's copies of one route to the cells of its city or location.
pub fn route_spec(kind: &FederatedKind, namespace: &str, route: &Route) -> Value {
    let labels = json!({route.label(kind): route.value()});
    json!({
        "propagateDeps": true,
        "resourceSelectors": [{"apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
            "namespace": namespace, "labelSelector": {"matchLabels": labels}}],
        "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": labels}}},
    })
}

/// Fields that Karmada's API defaults; they count as no difference. `schedulerName` is immutable.
const DEFAULTS: &[ServerDefault] = &[
    ("priority", Some("0")),
    ("preemption", Some("\"Never\"")),
    ("schedulerName", None),
    ("conflictResolution", Some("\"Abort\"")),
    ("propagateDeps", Some("false")),
];

/// Ownership of a policy's whole `spec`, except for Karmada's defaults.
pub fn exact_spec() -> ExactFields {
    ExactFields {
        roots: vec!["spec".to_owned()],
        tolerated: DEFAULTS,
        ..ExactFields::default()
    }
}

/// True if `live` equals `wanted`, except for Karmada's defaults.
pub fn matches_spec(live: &Value, wanted: &Value) -> bool {
    let (Some(live), Some(wanted)) = (live.as_object(), wanted.as_object()) else {
        return false;
    };
    wanted.iter().all(|(key, value)| live.get(key) == Some(value))
        && live
            .iter()
            .filter(|(key, _)| !wanted.contains_key(*key))
            .all(|(key, value)| ExactFields::tolerates(DEFAULTS, key, value))
}

/// Digest of a `spec` without Karmada's defaults: two of one digest ask the same of Karmada.
pub fn digest(spec: &Value) -> Digest {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|field, value| !ExactFields::tolerates(DEFAULTS, field, value));
    }
    Digest::of(&spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_no_difference_and_anything_else_is() {
        let cities = [CityCode::parse("DFW").unwrap()].into();
        let wanted = city_set_spec("dfw", &cities, "topology.datum.net/city-code");
        let mut live = wanted.clone();
        live["priority"] = json!(0);
        live["preemption"] = json!("Never");
        assert!(matches_spec(&live, &wanted));
        live["preserveResourcesOnDeletion"] = json!(true);
        assert!(!matches_spec(&live, &wanted));
        assert!(!matches_spec(&json!({}), &wanted));
    }

    #[test]
    fn what_differs_is_what_a_restoration_takes_away() {
        let cities = [CityCode::parse("DFW").unwrap()].into();
        let wanted = city_set_spec("dfw", &cities, "topology.datum.net/city-code");
        let after = |field: &str, value: Value| {
            let mut live = wanted.clone();
            live[field] = value;
            let exact = matches_spec(&live, &wanted);
            let live = serde_json::from_value(json!({"metadata": {}, "spec": live})).unwrap();
            let patch = fedgate_engine::diff::exact_patch(&live, &json!({"spec": wanted}), &exact_spec());
            (exact, patch.map(|p| p["spec"].clone()))
        };
        for (field, default, other) in [
            ("priority", json!(0), json!(5)),
            ("preemption", json!("Never"), json!("Always")),
            ("conflictResolution", json!("Abort"), json!("Overwrite")),
            ("propagateDeps", json!(false), json!(true)),
        ] {
            assert_eq!(after(field, default), (true, None), "{field}");
            let removed = json!({field: null});
            assert_eq!(after(field, other), (false, Some(removed)), "{field}");
        }
        assert_eq!(
            after("schedulerName", json!("mine")),
            (true, None),
            "it cannot be changed"
        );
    }
}
