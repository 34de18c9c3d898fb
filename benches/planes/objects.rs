//! Objects as tenants, cells and Karmada write them.

use fedgate_api::{keys, names::ProjectKey};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

const COMPUTE: &str = "compute.datumapis.com";
/// Name of the one cell.
const CELL: &str = "dfw-1";
/// A time that never moves.
const THEN: &str = "2026-05-04T10:00:00Z";
const WORKLOAD_UID: &str = "5f1c2d9e-0000-4000-8000-000000000001";

/// The kinds the bench reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Namespace,
    ClusterPolicy,
    Cluster,
    ConfigMap,
    Deployment,
    Instance,
    Policy,
    Binding,
}

impl Kind {
    fn parts(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::ClusterPolicy => (
                "policy.karmada.io",
                "v1alpha1",
                "ClusterPropagationPolicy",
                "clusterpropagationpolicies",
            ),
            Self::Cluster => ("cluster.karmada.io", "v1alpha1", "Cluster", "clusters"),
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
            Self::Deployment => (COMPUTE, "v1alpha", "WorkloadDeployment", "workloaddeployments"),
            Self::Instance => (COMPUTE, "v1alpha", "Instance", "instances"),
            Self::Policy => (
                "policy.karmada.io",
                "v1alpha1",
                "PropagationPolicy",
                "propagationpolicies",
            ),
            Self::Binding => (
                "work.karmada.io",
                "v1alpha2",
                "ResourceBinding",
                "resourcebindings",
            ),
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.parts();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }
}

fn template(config_map: Option<&str>) -> Value {
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

/// A deployment of one instance as a tenant writes it, with a `ConfigMap` volume if one is named.
pub(crate) fn deployment(name: &str, city: &str, config_map: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"name": "storefront", "uid": WORKLOAD_UID},
            "placementName": "main",
            "cityCode": city,
            "scaleSettings": {"minReplicas": 1, "instanceManagementPolicy": "OrderedReady"},
            "template": template(config_map),
        },
    })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": reason, "lastTransitionTime": THEN})
}

/// The status of a copy whose cell has `ready` instances of one.
pub(crate) fn report(ready: u32) -> Value {
    let (status, reason) = if ready > 0 {
        ("True", "StableInstanceFound")
    } else {
        ("False", "InstancesProvisioning")
    };
    json!({
        "location": {"name": "dfw-1-a", "namespace": "default"},
        "replicas": 1, "currentReplicas": ready, "updatedReplicas": 1, "desiredReplicas": 1, "readyReplicas": ready,
        "conditions": [condition("Available", status, reason)],
    })
}

/// The status that a bare client writes where the gateway writes `Propagating`.
pub(crate) fn propagating() -> Value {
    json!({
        "replicas": 0, "currentReplicas": 0, "updatedReplicas": 0, "desiredReplicas": 0, "readyReplicas": 0,
        "conditions": [condition("Federated", "False", "Propagating")],
    })
}

/// Status of an Instance; `ready` tells two of them apart.
pub(crate) fn instance_status(ready: bool) -> Value {
    let ready = if ready {
        ("True", "Available")
    } else {
        ("False", "SchedulingGatesPresent")
    };
    json!({"conditions": [
        condition("Programmed", "Unknown", "Pending"),
        condition("Available", "Unknown", "Pending"),
        condition("QuotaGranted", "True", "QuotaDisabled"),
        condition("Ready", ready.0, ready.1),
    ]})
}

/// A reference to a deployment: as its controller on the hub, as a plain owner in a project.
fn owner(deployment: &str, uid: &str, controller: bool) -> Value {
    let (group, version, kind, _) = Kind::Deployment.parts();
    let mut owner =
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "name": deployment, "uid": uid});
    if controller {
        owner["controller"] = json!(true);
        owner["blockOwnerDeletion"] = json!(true);
    }
    owner
}

/// The seven linking labels and the two of identity.
fn instance_labels(project: &ProjectKey, namespace: &str, deployment: &str) -> Value {
    json!({
        keys::UPSTREAM_CLUSTER: project.label(),
        keys::UPSTREAM_NAMESPACE: namespace,
        keys::WORKLOAD_UID: WORKLOAD_UID,
        keys::WORKLOAD_DEPLOYMENT_UID: "5f1c2d9e-0000-4000-8000-000000000002",
        keys::INSTANCE_INDEX: "0",
        keys::WORKLOAD_DEPLOYMENT_NAME: deployment,
        keys::INSTANCE_CITY_CODE: "DFW",
        keys::WORKLOAD_NAME: "storefront",
        keys::PLACEMENT_NAME: "main",
    })
}

fn instance_spec() -> Value {
    let mut spec = template(None)["spec"].take();
    spec["controller"] = json!({
        "templateHash": "v1-2c26b46b68ffc68ff99b453c1d304134",
        "schedulingGates": [{"name": "Network"}],
    });
    spec
}

/// A write-back as the contract has cells write it (federation.md §6).
pub(crate) fn write_back(
    project: &ProjectKey,
    namespace: &str,
    deployment: &str,
    copy_uid: &str,
    name: &str,
) -> Value {
    let mut labels = instance_labels(project, namespace, deployment);
    labels[keys::CELL] = json!(CELL);
    json!({
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {keys::INSTANCE_UID: "5f1c2d9e-0000-4000-8000-000000000003"},
            "ownerReferences": [owner(deployment, copy_uid, true)],
        },
        "spec": instance_spec(),
    })
}

/// The projection of a write-back, as a bare client writes it.
pub(crate) fn projection(
    project: &ProjectKey,
    namespace: &str,
    deployment: &str,
    uid: &str,
    name: &str,
) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": instance_labels(project, namespace, deployment),
            "ownerReferences": [owner(deployment, uid, false)],
        },
        "spec": instance_spec(),
    })
}

/// The hub's binding of a copy, scheduled and applied: what Karmada says once it has delivered.
pub(crate) fn binding(hub_namespace: &str, deployment: &str, copy_uid: &str) -> (Value, Value) {
    let (group, version, kind, _) = Kind::Deployment.parts();
    let object = json!({
        "metadata": {
            "name": binding_name(deployment),
            "ownerReferences": [owner(deployment, copy_uid, true)],
        },
        "spec": {
            "resource": {
                "apiVersion": format!("{group}/{version}"), "kind": kind,
                "namespace": hub_namespace, "name": deployment, "uid": copy_uid,
            },
            "clusters": [{"name": CELL}],
        },
    });
    let status = json!({
        "conditions": [condition("Scheduled", "True", "Success"), condition("FullyApplied", "True", "FullyAppliedSuccess")],
        "aggregatedStatus": [{"clusterName": CELL, "applied": true, "health": "Healthy"}],
    });
    (object, status)
}

/// A cluster policy with the identity that Karmada's webhook gives: by it the gateway knows, when it starts, that the
/// hub is a Karmada. It selects nothing.
pub(crate) fn marked_policy() -> Value {
    json!({
        "metadata": {"name": "bench", "labels": {keys::CLUSTER_CLAIM_ID: WORKLOAD_UID}},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "bench-selects-nothing"}],
            "placement": {"clusterAffinity": {"clusterNames": []}},
        },
    })
}

/// The cell that writes back. The hub's admission policies for cells look for its city, and refuse whatever is written
/// back to a hub without any.
pub(crate) fn cluster() -> Value {
    json!({
        "metadata": {"name": CELL, "labels": {keys::CITY_CODE: "DFW"}},
        "spec": {"syncMode": "Push"},
    })
}

/// Name of the binding of a copy.
pub(crate) fn binding_name(deployment: &str) -> String {
    format!("{deployment}-workloaddeployment")
}

/// The bare client's finalizer patch: as large as the gateway's.
pub(crate) fn announcement(uid: &str, resource_version: &str, hub_namespace: &str) -> Value {
    json!({"metadata": {
        "uid": uid,
        "resourceVersion": resource_version,
        "finalizers": [keys::FEDERATOR_FINALIZER],
        "annotations": {keys::FEDERATION_NAMESPACE: hub_namespace},
    }})
}

/// The bare client's copy of a project deployment: as large as the gateway's, under keys that nobody acts on.
pub(crate) fn bare_copy(source: &Value) -> Value {
    let meta = &source["metadata"];
    json!({
        "metadata": {
            "name": meta["name"],
            "labels": {"bench.fedgate.dev/city-code": "DFW", "bench.fedgate.dev/upstream-namespace": meta["namespace"]},
            "annotations": {
                "bench.fedgate.dev/source-uid": meta["uid"],
                "bench.fedgate.dev/source-generation": meta["generation"].to_string(),
            },
        },
        "spec": source["spec"],
    })
}

/// The bare client's hub Namespace, with as many labels as the gateway's.
pub(crate) fn bare_namespace(name: &str, upstream: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {
        "bench.fedgate.dev/upstream-cluster-name": "cluster-bare",
        "bench.fedgate.dev/upstream-namespace": upstream,
        keys::SKIP_AUTO_PROPAGATION: "true",
        "bench.fedgate.dev/project-uid": WORKLOAD_UID,
        "bench.fedgate.dev/cities": "dfw",
    }}})
}

/// The bare client's city policy: the gateway's shape under a label that no copy has.
pub(crate) fn bare_policy(namespace: &str) -> Value {
    let (group, version, kind, _) = Kind::Deployment.parts();
    let labels = json!({"matchLabels": {"bench.fedgate.dev/city-code": "DFW"}});
    json!({
        "metadata": {"name": "bench-dfw"},
        "spec": {
            "propagateDeps": true,
            "resourceSelectors": [{
                "apiVersion": format!("{group}/{version}"), "kind": kind,
                "namespace": namespace, "labelSelector": labels,
            }],
            "placement": {"clusterAffinity": {"labelSelector": labels}},
        },
    })
}
