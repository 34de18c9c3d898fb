//! Objects as tenants and cells write them.

use fedgate_api::keys;
use serde_json::{Value, json};

/// API version of the compute kinds.
pub(crate) const COMPUTE: &str = "compute.datumapis.com/v1alpha";
const WORKLOAD_UID: &str = "5f1c2d9e-0000-4000-8000-000000000001";

/// A deployment as a tenant writes it, with a `ConfigMap` volume if one is named.
pub(crate) fn deployment(
    namespace: &str,
    name: &str,
    city: &str,
    replicas: u32,
    config_map: Option<&str>,
) -> Value {
    json!({
        "apiVersion": COMPUTE,
        "kind": "WorkloadDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "workloadRef": {"name": "storefront", "uid": WORKLOAD_UID},
            "placementName": "main",
            "cityCode": city,
            "scaleSettings": {"minReplicas": replicas, "instanceManagementPolicy": "OrderedReady"},
            "template": template(config_map),
        },
    })
}

/// The template of a deployment, with a `ConfigMap` volume if one is named.
pub(crate) fn template(config_map: Option<&str>) -> Value {
    let mut container = json!({"name": "web", "image": "shop/web:1.4.2"});
    let mut spec = json!({
        "runtime": {"resources": {"instanceType": "datumcloud/d1-standard-2"}},
        "networkInterfaces": [{"network": {"name": "default"}}],
    });
    if let Some(name) = config_map {
        spec["volumes"] = json!([{"name": "settings", "configMap": {"name": name}}]);
        container["volumeAttachments"] = json!([{"name": "settings", "mountPath": "/etc/settings"}]);
    }
    spec["runtime"]["sandbox"] = json!({"containers": [container]});
    json!({"metadata": {"labels": {"app": "storefront"}}, "spec": spec})
}

/// A Workload with an Instance in each of these cities.
pub(crate) fn workload(namespace: &str, name: &str, cities: &[&str]) -> Value {
    json!({
        "apiVersion": COMPUTE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "placements": [{"name": "main", "cityCodes": cities, "scaleSettings": {"minReplicas": 1}}],
            "template": template(None),
        },
    })
}

/// A Secret with one value.
pub(crate) fn secret(namespace: &str, name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"password": value},
    })
}

/// A `ConfigMap` with one value.
pub(crate) fn config_map(namespace: &str, name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"greeting": value},
    })
}

/// A project namespace.
pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn condition(kind: &str, status: bool, reason: &str) -> Value {
    json!({
        "type": kind,
        "status": if status { "True" } else { "False" },
        "reason": reason,
        "message": reason,
        "lastTransitionTime": "2026-05-04T10:00:00Z",
    })
}

/// The status of a copy, as Karmada gathers it from a cell that runs all of its instances.
pub(crate) fn report(replicas: u64, generation: Option<i64>) -> Value {
    let mut available = condition("Available", replicas > 0, "StableInstanceFound");
    let mut status = json!({
        "replicas": replicas, "currentReplicas": replicas, "updatedReplicas": replicas,
        "desiredReplicas": replicas, "readyReplicas": replicas,
    });
    if let Some(generation) = generation {
        available["observedGeneration"] = json!(generation);
        status["observedGeneration"] = json!(generation);
    }
    status["conditions"] = json!([available]);
    status
}

/// Status of an Instance of which this much is known.
pub(crate) fn instance_status(ready: bool) -> Value {
    json!({"conditions": [
        condition("QuotaGranted", true, "QuotaDisabled"),
        condition("Ready", ready, if ready { "Available" } else { "SchedulingGatesPresent" }),
    ]})
}

/// What a write-back stands for.
#[derive(Debug, Clone)]
pub(crate) struct WriteBack<'a> {
    /// The project's key.
    pub project: &'a str,
    /// The namespace in the project.
    pub namespace: &'a str,
    /// The hub namespace.
    pub hub: &'a str,
    /// The deployment.
    pub deployment: &'a str,
    /// UID of the deployment's copy.
    pub copy: &'a str,
    /// The city of the cell.
    pub city: &'a str,
    /// The cell.
    pub cell: &'a str,
    /// The ordinal.
    pub ordinal: u64,
}

impl WriteBack<'_> {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.deployment, self.ordinal)
    }

    /// The object, as the contract has cells write it (federation.md §6).
    pub(crate) fn object(&self) -> Value {
        let mut spec = template(None)["spec"].take();
        spec["controller"] = json!({
            "templateHash": "v1-2c26b46b68ffc68ff99b453c1d304134",
            "schedulingGates": [{"name": "Network"}],
        });
        json!({
            "apiVersion": COMPUTE,
            "kind": "Instance",
            "metadata": {
                "name": self.name(),
                "namespace": self.hub,
                "labels": {
                    keys::UPSTREAM_CLUSTER: format!("cluster-{}", self.project),
                    keys::UPSTREAM_NAMESPACE: self.namespace,
                    keys::WORKLOAD_UID: WORKLOAD_UID,
                    keys::WORKLOAD_DEPLOYMENT_UID: "5f1c2d9e-0000-4000-8000-000000000002",
                    keys::INSTANCE_INDEX: self.ordinal.to_string(),
                    keys::WORKLOAD_DEPLOYMENT_NAME: self.deployment,
                    keys::INSTANCE_CITY_CODE: self.city,
                    keys::WORKLOAD_NAME: "storefront",
                    keys::PLACEMENT_NAME: "main",
                    keys::CELL: self.cell,
                },
                "annotations": {keys::INSTANCE_UID: "5f1c2d9e-0000-4000-8000-000000000003"},
                "ownerReferences": [{
                    "apiVersion": COMPUTE, "kind": "WorkloadDeployment", "name": self.deployment,
                    "uid": self.copy, "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": spec,
        })
    }
}
