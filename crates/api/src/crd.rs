//! The custom resource definitions: two schemas from one set of types (contract: api.md §6).
//!
//! The derive gives structure, required fields, defaults and list types. That is all `WorkloadDeployment` and Instance
//! carry, because controllers and Karmada write them. The Workload's spec, which people write, also gets the bounds
//! of [`strict`](super::strict) and the CEL rules of [`rules`](super::rules).

use super::{Instance, Workload, WorkloadDeployment, rules, schema, strict};
pub use schema::SchemaError;

use kube::CustomResourceExt;
use serde_json::{Value, json};

/// The definition of Workload, with the strict schema.
pub fn workload() -> Result<Value, SchemaError> {
    let mut crd = plain::<Workload>();
    let root = schema_of(&mut crd);
    strict::apply(root)?;
    rules::apply(root)?;
    Ok(crd)
}

/// Most Instances that a deployment may have, whatever a cell is set to: without a bound a number of nine digits would be
/// carried to every cell before one refuses it.
pub const MAX_REPLICAS: u32 = 10_000;

/// The definition of `WorkloadDeployment`, with the plain schema and a bound of its count.
pub fn workload_deployment() -> Result<Value, SchemaError> {
    let mut crd = plain::<WorkloadDeployment>();
    let root = schema_of(&mut crd);
    schema::at(root, "")?.remove("required");
    let count = schema::at(root, "spec.scaleSettings.minReplicas")?;
    count.insert("minimum".to_owned(), json!(0));
    count.insert("maximum".to_owned(), json!(MAX_REPLICAS));
    Ok(crd)
}

/// The definition of Instance, with the plain schema and a default for the whole status.
pub fn instance() -> Result<Value, SchemaError> {
    let mut crd = plain::<Instance>();
    let root = schema_of(&mut crd);
    schema::at(root, "")?.remove("required");
    schema::at(root, "status")?.insert("default".to_owned(), first_status());
    Ok(crd)
}

/// All three, sorted by name.
pub fn all() -> Result<Vec<Value>, SchemaError> {
    Ok(vec![instance()?, workload_deployment()?, workload()?])
}

fn plain<K: CustomResourceExt>() -> Value {
    let mut crd = json!(K::crd());
    schema::tidy(schema_of(&mut crd));
    crd
}

fn schema_of(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn first_status() -> Value {
    let condition = |type_: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": "Unknown", "reason": reason, "message": message,
               "lastTransitionTime": "1970-01-01T00:00:00Z"})
    };
    json!({"conditions": [
        condition("Programmed", "Pending", "Waiting for controller"),
        condition("Available", "Pending", "Waiting for controller"),
        condition("Ready", "Pending", "Waiting for controller"),
        condition("QuotaGranted", "PendingEvaluation", "Waiting for quota evaluation"),
    ]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every node of a schema, with its path.
    fn nodes(path: &str, node: &Value, out: &mut Vec<(String, Value)>) {
        out.push((path.to_owned(), node.clone()));
        for (name, child) in node["properties"].as_object().into_iter().flatten() {
            nodes(&format!("{path}.{name}"), child, out);
        }
        for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if node[key].is_object() {
                nodes(&format!("{path}{mark}"), &node[key], out);
            }
        }
    }

    fn all_nodes(mut crd: Value) -> Vec<(String, Value)> {
        let mut out = Vec::new();
        nodes("", schema_of(&mut crd), &mut out);
        out
    }

    #[test]
    fn up_to_date_counts_what_is_on_the_latest_template_ready_or_not() {
        for crd in [workload().unwrap(), workload_deployment().unwrap()] {
            let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
            let column = columns.unwrap().iter().find(|c| c["name"] == "Up-to-date");
            assert_eq!(column.unwrap()["jsonPath"], ".status.updatedReplicas");
        }
    }

    #[test]
    fn the_strict_schema_adds_to_the_plain_one_and_changes_nothing_of_it() {
        let plain = all_nodes(plain::<Workload>());
        let strict = all_nodes(workload().unwrap());
        assert_eq!(plain.len(), strict.len());
        for ((path, before), (_, after)) in plain.iter().zip(&strict) {
            for key in [
                "type",
                "required",
                "default",
                "x-kubernetes-list-map-keys",
                "minItems",
            ] {
                assert_eq!(before[key], after[key], "{key} of {path}");
            }
        }
    }

    #[test]
    fn plain_schemas_have_no_bounds_and_no_rules() {
        for crd in [workload_deployment().unwrap(), instance().unwrap()] {
            for (path, node) in all_nodes(crd) {
                assert!(node["x-kubernetes-validations"].is_null(), "{path}");
                let bound = path == ".spec.scaleSettings.minReplicas";
                assert_eq!(bound, !node["maximum"].is_null(), "{path}");
                assert!(
                    node["maxItems"].is_null() && node["maxProperties"].is_null(),
                    "{path}"
                );
                let known = path.contains("conditions[]") || node["x-kubernetes-int-or-string"] == true;
                assert!(
                    known || (node["pattern"].is_null() && node["maxLength"].is_null()),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn required_fields_and_defaults_are_those_of_the_contract() {
        let list = |crd: Value| -> BTreeSet<String> {
            all_nodes(crd)
                .into_iter()
                .flat_map(|(path, node)| {
                    let names = node["required"].as_array().cloned().unwrap_or_default();
                    names
                        .into_iter()
                        .map(move |n| format!("{path}.{}", n.as_str().unwrap()))
                })
                .filter(|p| !p.contains("template") && !p.contains("conditions[]"))
                .collect()
        };
        let set = |paths: &[&str]| paths.iter().map(|p| (*p).to_owned()).collect::<BTreeSet<_>>();
        let required = list(workload_deployment().unwrap());
        assert_eq!(
            required,
            set(&[
                ".spec.cityCode",
                ".spec.placementName",
                ".spec.scaleSettings",
                ".spec.scaleSettings.instanceManagementPolicy",
                ".spec.scaleSettings.metrics[].resource.name",
                ".spec.scaleSettings.metrics[].resource.target",
                ".spec.scaleSettings.minReplicas",
                ".spec.workloadRef",
                ".spec.workloadRef.name",
                ".spec.workloadRef.uid",
                ".status.currentReplicas",
                ".status.desiredReplicas",
                ".status.location.name",
                ".status.readyReplicas",
                ".status.replicas",
            ])
        );
        let workload = list(workload().unwrap());
        for path in [
            ".spec",
            ".status.deployments",
            ".status.placements[].name",
            ".spec.placements[].cityCodes",
        ] {
            assert!(workload.contains(path), "{path} in {workload:?}");
        }
        let defaults: Vec<_> = all_nodes(workload_deployment().unwrap())
            .into_iter()
            .filter(|(_, node)| !node["default"].is_null())
            .map(|(path, node)| format!("{path}={}", node["default"]))
            .collect();
        assert_eq!(
            defaults,
            [
                ".spec.scaleSettings.instanceManagementPolicy=\"OrderedReady\"",
                ".spec.template.spec.runtime.sandbox.containers[].env[].valueFrom.configMapKeyRef.name=\"\"",
                ".spec.template.spec.runtime.sandbox.containers[].env[].valueFrom.secretKeyRef.name=\"\"",
                ".spec.template.spec.volumes[].configMap.name=\"\"",
                ".spec.template.spec.volumes[].disk.template.spec.type=\"pd-standard\"",
                ".status.updatedReplicas=0",
            ]
        );
    }
}
