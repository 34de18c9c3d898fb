//! Tests: contents of a new Instance (scenarios 3 to 6 of cell.md §2.4).

use super::*;
use crate::rollout::{hash, make};
use fedgate_api::LocationReference;
use serde_json::{Value, json};

fn template() -> Value {
    json!({
        "metadata": {
            "name": "ignored",
            "labels": {"app": "checkout", "compute.datumapis.com/workload-name": "forged"},
            "annotations": {"compute.datumapis.com/restartedAt": "2026-05-04T10:00:00Z"},
        },
        "spec": {"runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}}, "unheard": {"of": [1]}},
    })
}

fn made(ordinal: u32, gates: &[&'static str], location: Option<&LocationReference>) -> Value {
    let template = template();
    let making = make::NewInstance {
        namespace: "ns-1",
        template: &template,
        hash: "v1-00",
        gates,
        location,
    };
    make::instance(&deployment(3), ordinal, &making)
}

#[test]
fn s03_to_s05_an_instance_has_one_owner_our_labels_and_the_whole_template() {
    let place = LocationReference {
        name: "us-south-1".to_owned(),
        namespace: Some("default".to_owned()),
    };
    assert_eq!(
        made(2, &["Network", "Quota"], Some(&place)),
        json!({
            "apiVersion": "compute.datumapis.com/v1alpha",
            "kind": "Instance",
            "metadata": {
                "name": "web-us-dfw-2",
                "namespace": "ns-1",
                "labels": {
                    "app": "checkout",
                    "compute.datumapis.com/workload-uid": "uid-workload",
                    "compute.datumapis.com/workload-name": "web",
                    "compute.datumapis.com/placement-name": "us",
                    "compute.datumapis.com/city-code": "DFW",
                    "compute.datumapis.com/location": "us-south-1",
                    "compute.datumapis.com/workload-deployment-name": "web-us-dfw",
                    "compute.datumapis.com/workload-deployment-uid": "uid-deployment",
                    "compute.datumapis.com/instance-index": "2",
                },
                "annotations": {"compute.datumapis.com/restartedAt": "2026-05-04T10:00:00Z"},
                "ownerReferences": [{
                    "apiVersion": "compute.datumapis.com/v1alpha", "kind": "WorkloadDeployment", "name": "web-us-dfw",
                    "uid": "uid-deployment", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}},
                "unheard": {"of": [1]},
                "location": {"name": "us-south-1", "namespace": "default"},
                "controller": {"templateHash": "v1-00", "schedulingGates": [{"name": "Network"}, {"name": "Quota"}]},
            },
        })
    );
}

#[test]
fn s05_s06_what_is_not_known_or_not_needed_is_left_out() {
    let instance = made(0, &["Quota"], None);
    assert_eq!(instance["spec"].get("location"), None);
    assert_eq!(
        instance["spec"]["controller"]["schedulingGates"],
        json!([{"name": "Quota"}])
    );
}

#[test]
fn what_was_made_is_current_by_its_content_too() {
    let template = template();
    let instance = made(0, &["Quota"], None);
    let map = |key: &str| -> Labels {
        let map = instance["metadata"][key].as_object().unwrap();
        map.iter()
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap()))
            .collect()
    };
    let (labels, annotations) = (map("labels"), map("annotations"));
    let made = hash::AppliedTemplate {
        hash: None,
        spec: &instance["spec"].to_string(),
        labels: &labels,
        annotations: &annotations,
    };
    assert!(hash::is_current(
        &template.to_string(),
        &hash::of(&template),
        made
    ));
}
