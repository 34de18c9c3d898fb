//! Specs of the Karmada policies that the gateway writes (contract: federation.md §2.2, §2.3).

use super::route::Route;
use fedgate_api::{
    keys,
    names::{self, CityCode, HubNamespace},
};
use fedgate_engine::{
    diff::Digest,
    plan::{ExactFields, ServerDefault},
};
use fedgate_kinds::{CompanionKinds, FederatedKind};
use kube::core::ApiResource;
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
    if names::is_preserving_set(set) {
        spec["preserveResourcesOnDeletion"] = json!(true);
        spec["conflictResolution"] = json!("Overwrite");
        spec["placement"]["clusterTolerations"] = json!([{"operator": "Exists"}]);
    }
    spec
}

/// `spec` of the `PropagationPolicy` that sends a hub namespace's copies of one route to one cell or to all cells of its city or
/// location, by the kind's cardinality.
pub fn route_spec(kind: &FederatedKind, namespace: &str, route: &Route) -> Value {
    let labels = json!({route.label(kind): route.value()});
    let mut spec = json!({
        "propagateDeps": true,
        "resourceSelectors": [{"apiVersion": kind.resource.api_version, "kind": kind.resource.kind,
            "namespace": namespace, "labelSelector": {"matchLabels": labels}}],
        "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": labels}}},
    });
    if kind.is_movable() {
        spec["placement"]["spreadConstraints"] = to_one_cluster();
    }
    spec
}

/// The `spreadConstraints` by which Karmada's scheduler chooses one cluster.
pub fn to_one_cluster() -> Value {
    json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}])
}

/// True if a policy's `spec` can take objects that the gateway keeps in the hub's Namespaces `ns-*`, or such a Namespace, by
/// a selector that does not name other objects. `namespace` is the policy's own; empty for a `ClusterPropagationPolicy`.
pub fn takes_ours(spec: &Value, namespace: &str, kinds: &[FederatedKind]) -> bool {
    let companions = CompanionKinds::of(kinds);
    let is_ours = |version: &str, kind: &str| {
        let is = |of: &ApiResource| of.api_version == version && of.kind == kind;
        let group = version.rsplit_once('/').map_or("", |of| of.0);
        companions.id_of(group, kind).is_some()
            || kinds
                .iter()
                .any(|of| is(&of.resource) || of.write_back.as_ref().is_some_and(|of| is(&of.resource)))
    };
    let selectors = spec["resourceSelectors"].as_array();
    selectors.into_iter().flatten().any(|selector| {
        let text = |field: &str| selector[field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let is_hubs = |name: &str| HubNamespace::parse(name).is_some();
        let within = match text("namespace") {
            "" => namespace,
            own => own,
        };
        let reaches = match (text("apiVersion"), kind) {
            ("v1", "Namespace") => name.is_empty() || is_hubs(name),
            (version, kind) => {
                is_ours(version, kind) && (is_hubs(within) || within.is_empty() && name.is_empty())
            }
        };
        reaches && may_match(&selector["labelSelector"])
    })
}

/// True unless a selector asks for a label that no object of the gateway has.
fn may_match(selector: &Value) -> bool {
    let is_ours = |key: &str| {
        let group = key.split('/').next().unwrap_or_default();
        [
            "compute.datumapis.com",
            "fedgate.dev",
            "meta.datumapis.com",
            "topology.datum.net",
        ]
        .contains(&group)
            || ["kubernetes.io/metadata.name", keys::SKIP_AUTO_PROPAGATION].contains(&key)
    };
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|(key, _)| is_ours(key))
        && expressions.all(|one| {
            !["In", "Exists"].contains(&one["operator"].as_str().unwrap_or_default())
                || one["key"].as_str().is_some_and(is_ours)
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
    }
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
        assert_eq!(digest(&live), digest(&wanted));
        live["preserveResourcesOnDeletion"] = json!(true);
        assert_ne!(digest(&live), digest(&wanted));
        assert_ne!(digest(&json!({})), digest(&wanted));
    }

    #[test]
    fn what_differs_is_what_a_restoration_takes_away() {
        let cities = [CityCode::parse("DFW").unwrap()].into();
        let wanted = city_set_spec("dfw", &cities, "topology.datum.net/city-code");
        let after = |field: &str, value: Value| {
            let mut live = wanted.clone();
            live[field] = value;
            let exact = digest(&live) == digest(&wanted);
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

    #[test]
    fn policies_of_others_that_can_take_what_is_in_a_hub_namespace_are_known() {
        let kinds = FederatedKind::builtin().unwrap();
        let takes = |namespace: &str, selector: Value| {
            takes_ours(&json!({"resourceSelectors": [selector]}), namespace, &kinds)
        };
        let secrets = |more: Value| {
            let mut selector = json!({"apiVersion": "v1", "kind": "Secret"});
            selector
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            selector
        };
        let labels = |labels: Value| secrets(json!({"labelSelector": labels}));
        for taken in [
            secrets(json!({})),
            secrets(json!({"namespace": "ns-a1"})),
            secrets(json!({"namespace": "ns-a1", "name": "db"})),
            labels(json!({"matchLabels": {keys::REFERENCED_DATA: "true"}})),
            labels(json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})),
            json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment"}),
            json!({"apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance"}),
            json!({"apiVersion": "v1", "kind": "Namespace"}),
            json!({"apiVersion": "v1", "kind": "Namespace", "name": "ns-a1"}),
            // network-services-operator, which keeps its objects in Namespaces of the same names.
            json!({"apiVersion": "v1", "kind": "Namespace", "labelSelector": {"matchExpressions":
                [{"key": keys::UPSTREAM_NAMESPACE, "operator": "Exists"}]}}),
        ] {
            assert!(takes("", taken.clone()), "{taken}");
        }
        for left in [
            secrets(json!({"namespace": "billing"})),
            secrets(json!({"name": "regcred"})),
            labels(json!({"matchLabels": {"app": "billing"}})),
            labels(json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]})),
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            json!({"apiVersion": "v1", "kind": "Namespace", "name": "billing"}),
            json!({"apiVersion": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"team": "x"}}}),
        ] {
            assert!(!takes("", left.clone()), "{left}");
        }
        assert!(takes("ns-a1", secrets(json!({}))) && takes("ns-a1", secrets(json!({"name": "db"}))));
        assert!(!takes("billing", secrets(json!({}))));
    }
}
