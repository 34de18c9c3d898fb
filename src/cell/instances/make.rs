//! What a new Instance is made of.

use super::{Deployment, ordinal};
use crate::api::LocationReference;
use serde_json::{Map, Value, json};

/// What the Instances of a deployment are made of, beside it.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// The namespace of the deployment.
    pub namespace: &'a str,
    /// Its template, as it is written.
    pub template: &'a Value,
    /// The template's hash ([`super::hash::of`]).
    pub hash: &'a str,
    /// Scheduling gates, in order.
    pub gates: &'a [&'static str],
    /// Where the cell is, if that is known.
    pub location: Option<&'a LocationReference>,
}

/// The Instance of an ordinal: labels and annotations of the template, the controller's labels over them, and the
/// template's spec.
pub fn instance(deployment: &Deployment, ordinal: u32, making: &Making<'_>) -> Value {
    let Making {
        namespace,
        template,
        hash,
        gates,
        location,
    } = making;
    let mut labels = map(&template["metadata"]["labels"]);
    let linking = deployment.linking.labels(ordinal);
    labels.extend(linking.map(|(key, value)| (key.to_owned(), json!(value))));
    let mut metadata = json!({
        "name": ordinal::name(&deployment.name, ordinal),
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [{
            "apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "WorkloadDeployment",
            "name": &*deployment.name,
            "uid": &*deployment.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    let annotations = map(&template["metadata"]["annotations"]);
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    let mut spec = map(&template["spec"]);
    if let Some(location) = location {
        spec.insert("location".to_owned(), json!(location));
    }
    let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
    spec.insert(
        "controller".to_owned(),
        json!({"templateHash": hash, "schedulingGates": gates}),
    );
    json!({
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": metadata,
        "spec": spec,
    })
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
