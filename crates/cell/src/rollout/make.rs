//! Renders new Instances.

use super::{Deployment, labels::is_controllers, ordinal};
use crate::writes::controlled_by;
use fedgate_api::{API_VERSION, LocationReference};
use serde_json::{Map, Value, json};

/// Inputs for a new Instance besides its deployment.
#[derive(Debug, Clone, Copy)]
pub struct NewInstance<'a> {
    /// The namespace of the deployment.
    pub namespace: &'a str,
    /// The template, unparsed.
    pub template: &'a Value,
    /// Hash of the template ([`super::hash::of`]).
    pub hash: &'a str,
    /// Scheduling gates, in order.
    pub gates: &'a [&'static str],
    /// Location of the cell, if known.
    pub location: Option<&'a LocationReference>,
}

/// Renders the Instance with this ordinal: labels and annotations of the template, overridden by the owner labels, and
/// the template's spec.
pub fn instance(deployment: &Deployment, ordinal: u32, making: &NewInstance<'_>) -> Value {
    let mut labels = map(&making.template["metadata"]["labels"]);
    // A tenant may not say where an Instance is, not even while the cell does not know.
    labels.retain(|key, _| !is_controllers(key));
    let linking = deployment.labels(ordinal);
    labels.extend(linking.map(|(key, value)| (key.to_owned(), json!(value))));
    let mut metadata = json!({
        "name": ordinal::name(&deployment.name, ordinal),
        "namespace": making.namespace,
        "labels": labels,
        "ownerReferences": controlled_by("WorkloadDeployment", &deployment.name, &deployment.uid),
    });
    let annotations = map(&making.template["metadata"]["annotations"]);
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations);
    }
    let mut spec = map(&making.template["spec"]);
    if let Some(location) = making.location {
        spec.insert("location".to_owned(), json!(location));
    }
    let gates: Vec<Value> = making.gates.iter().map(|name| json!({"name": name})).collect();
    spec.insert(
        "controller".to_owned(),
        json!({"templateHash": making.hash, "schedulingGates": gates}),
    );
    json!({
        "apiVersion": API_VERSION,
        "kind": "Instance",
        "metadata": metadata,
        "spec": spec,
    })
}

fn map(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}
