//! Renders the hub's copy of a project object from its body (contract: federation.md §2.3). Pure.

use crate::{
    index::rows::{carried, payload_roots, place},
    route::{CityRoute, Route},
};
use fedgate_api::{keys, names::LocationName};
use fedgate_kinds::FederatedKind;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

/// The whole copy: metadata from the allow-list, and every root field of the source except metadata and status. A city or
/// location that the source does not name is filled in.
pub(super) fn copy(
    kind: &FederatedKind,
    source: &DynamicObject,
    hub_namespace: &str,
    destination: &CityRoute,
    location: Option<&LocationName>,
) -> Value {
    let mut object: Map<String, Value> = payload_roots(source);
    place::complete(kind, &mut object, &destination.city, location);
    object.insert("apiVersion".into(), json!(kind.resource.api_version));
    object.insert("kind".into(), json!(kind.resource.kind));
    object.insert(
        "metadata".into(),
        metadata(kind, source, hub_namespace, &destination.route),
    );
    Value::Object(object)
}

fn metadata(kind: &FederatedKind, source: &DynamicObject, hub_namespace: &str, route: &Route) -> Value {
    let meta = &source.metadata;
    let mut annotations = carried(kind, source);
    annotations.insert(keys::SOURCE_UID.into(), meta.uid.clone().unwrap_or_default());
    annotations.insert(
        keys::SOURCE_GENERATION.into(),
        meta.generation.unwrap_or(0).to_string(),
    );
    json!({
        "name": meta.name,
        "namespace": hub_namespace,
        "labels": {
            route.label(kind): route.value(),
            keys::UPSTREAM_NAMESPACE: meta.namespace,
        },
        "annotations": annotations,
    })
}

#[cfg(test)]
mod tests;
