//! The custom resource definitions: schemas from one set of types (contract: api.md §6).
//!
//! The derive gives structure, required fields, defaults and list types. `WorkloadDeployment` and Instance carry little else,
//! because controllers and Karmada write them. The Workload's spec, which people write, also gets bounds and CEL rules; what
//! is added is in `schemas.yaml`.

use super::{Instance, Workload, WorkloadDeployment, cell::Cell, rules, schema};
pub use schema::SchemaError;

use kube::CustomResourceExt;
use serde_json::{Value, json};

/// The definition of Workload, with the strict schema.
pub fn workload() -> Result<Value, SchemaError> {
    definition::<Workload>("Workload")
}

/// Longest name of a Workload: its deployments, Instances and Pods carry it as a label value.
pub const WORKLOAD_NAME_LIMIT: usize = 63;

/// Most Instances that the definition admits in a deployment, whatever a cell is set to.
pub const MAX_REPLICAS: u32 = 10_000;

/// The definition of `WorkloadDeployment`, with the plain schema, a bound of its count, and the rule that it has a place.
pub fn workload_deployment() -> Result<Value, SchemaError> {
    definition::<WorkloadDeployment>("WorkloadDeployment")
}

/// The definition of Instance, with the plain schema and a default for the whole status.
pub fn instance() -> Result<Value, SchemaError> {
    definition::<Instance>("Instance")
}

/// The definition of Cell, of the hub alone, with the rules of its spec (contract: provisioning.md §10.1).
pub fn cell() -> Result<Value, SchemaError> {
    let mut crd = plain::<Cell>();
    rules::apply("Cell", schema_of(&mut crd))?;
    Ok(crd)
}

/// All three of the compute API, sorted by name.
pub fn all() -> Result<Vec<Value>, SchemaError> {
    Ok(vec![instance()?, workload_deployment()?, workload()?])
}

fn definition<K: CustomResourceExt>(kind: &str) -> Result<Value, SchemaError> {
    let mut crd = plain::<K>();
    let root = schema_of(&mut crd);
    if kind != "Workload" {
        schema::at(root, "")?.remove("required");
    }
    rules::apply(kind, root)?;
    Ok(crd)
}

fn plain<K: CustomResourceExt>() -> Value {
    let mut crd = json!(K::crd());
    schema::tidy(schema_of(&mut crd));
    crd
}

fn schema_of(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
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

    /// Name, path below `.status` or the whole path, and type of each column, and `+` for those of `-o wide`.
    fn columns(crd: &Value) -> Vec<String> {
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array();
        let text = |column: &Value, key: &str| column[key].as_str().unwrap().to_owned();
        let one = |column: &Value| {
            let path = text(column, "jsonPath");
            let path = path.strip_prefix(".status.").unwrap_or(&path);
            let wide = if column["priority"] == 1 { "+" } else { "" };
            format!("{wide}{} {path} {}", text(column, "name"), text(column, "type"))
        };
        columns.unwrap().iter().map(one).collect()
    }

    #[test]
    fn columns_are_those_of_the_contract_with_numbers_as_integers_and_the_age_last() {
        let condition = |name: &str, type_: &str, field: &str| {
            format!("{name} conditions[?(@.type==\"{type_}\")].{field} string")
        };
        let age = "Age .metadata.creationTimestamp date".to_owned();
        let text = str::to_owned;
        assert_eq!(
            columns(&workload().unwrap()),
            [
                condition("Available", "Available", "status"),
                condition("Reason", "Available", "reason"),
                text("Desired desiredReplicas integer"),
                text("Ready readyReplicas integer"),
                text("Up-to-date updatedReplicas integer"),
                text("Deployments deployments integer"),
                text("+Replicas replicas integer"),
                age.clone(),
            ]
        );
        assert_eq!(
            columns(&workload_deployment().unwrap()),
            [
                text("City .spec.cityCode string"),
                condition("Available", "Available", "status"),
                condition("Reason", "Available", "reason"),
                condition("Federated", "Federated", "reason"),
                text("Desired desiredReplicas integer"),
                text("Ready readyReplicas integer"),
                text("Up-to-date updatedReplicas integer"),
                text("+Replicas replicas integer"),
                text("+Location location.name string"),
                condition("+Message", "Federated", "message"),
                age.clone(),
            ]
        );
        assert_eq!(
            columns(&instance().unwrap()),
            [
                condition("Ready", "Ready", "status"),
                condition("Reason", "Ready", "reason"),
                text(r"City .metadata.labels.compute\.datumapis\.com/city-code string"),
                text("Network IP networkInterfaces[0].assignments.networkIP string"),
                text("External IP networkInterfaces[0].assignments.externalIP string"),
                condition("+Quota", "QuotaGranted", "reason"),
                condition("+Message", "Ready", "message"),
                age,
            ]
        );
    }

    #[test]
    fn every_kind_has_a_short_name_and_is_in_the_category_compute_alone() {
        for (crd, short) in all().unwrap().into_iter().zip(["inst", "wd", "cw"]) {
            let names = &crd["spec"]["names"];
            assert_eq!(names["shortNames"], json!([short]));
            assert_eq!(names["categories"], json!(["compute"]));
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
                let ours = (&**path, key) == (".status", "default");
                assert!(ours || before[key] == after[key], "{key} of {path}");
            }
        }
    }

    #[test]
    fn first_conditions_have_types_and_reasons_of_ours() {
        for mut crd in [workload().unwrap(), instance().unwrap()] {
            let status = &schema_of(&mut crd)["properties"]["status"]["default"];
            let first: Vec<crate::Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
            assert!(
                first
                    .iter()
                    .all(|one| crate::Reason::parse(&one.reason).is_some()),
                "{first:?}"
            );
            assert!(crate::conditions::find(&first, crate::conditions::types::READY).is_some());
        }
    }

    #[test]
    fn a_name_that_is_no_label_value_is_refused() {
        let mut crd = workload().unwrap();
        let rules = &schema_of(&mut crd)["x-kubernetes-validations"];
        assert_eq!(
            rules[0]["rule"],
            format!("oldSelf.hasValue() || size(self.metadata.name) <= {WORKLOAD_NAME_LIMIT}")
        );
        assert_eq!(
            rules[0]["optionalOldSelf"], true,
            "one that exists can be released"
        );
        assert!(
            rules[0]["message"]
                .as_str()
                .unwrap()
                .contains("at most 63 characters")
        );
    }

    #[test]
    fn plain_schemas_have_no_bounds_and_no_rule_but_that_of_the_place() {
        for crd in [workload_deployment().unwrap(), instance().unwrap()] {
            for (path, node) in all_nodes(crd) {
                let placed = path == ".spec" && !node["properties"]["cityCode"].is_null();
                assert_eq!(placed, !node["x-kubernetes-validations"].is_null(), "{path}");
                let bound = path == ".spec.scaleSettings.minReplicas";
                assert_eq!(bound, !node["maximum"].is_null(), "{path}");
                assert!(!bound || node["maximum"] == MAX_REPLICAS, "{path}");
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
    fn fields_that_only_an_autoscaler_would_read_are_said_to_have_no_effect() {
        let told = |crd: Value, within: &str, field: &str| {
            let mut nodes = all_nodes(crd).into_iter();
            let node = nodes.find(|(path, _)| path.ends_with(&format!("{within}.{field}")));
            let description = node.unwrap().1["description"].as_str().unwrap().to_owned();
            assert!(
                description.contains("ave no effect") || description.starts_with("Has no effect"),
                "{field}: {description}"
            );
            assert!(
                description.contains("inReplicas` is what"),
                "{field}: {description}"
            );
        };
        told(workload_deployment().unwrap(), "spec", "replicas");
        for field in ["metrics", "maxReplicas"] {
            told(workload_deployment().unwrap(), "spec.scaleSettings", field);
            told(workload().unwrap(), "scaleSettings", field);
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
                ".spec.locationRef.name",
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
            ".spec.placements[].locations[].name",
            ".status.placements[].locations[].name",
        ] {
            assert!(workload.contains(path), "{path} in {workload:?}");
        }
        for field in ["cityCodes", "locations", "locationSelector"] {
            let path = format!(".spec.placements[].{field}");
            assert!(!workload.contains(&path), "{path} in {workload:?}");
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
