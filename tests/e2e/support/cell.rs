//! The cell, played by the suite: it writes what the write-back contract says (federation.md §6), under the cell's
//! certificate on the hub.

use super::{
    case::{label, uid},
    kinds::{DEPLOYMENT, INSTANCE, NAMESPACE},
    plane::{Plane, seconds, wait_for},
    suite::CellAccess,
};
use fedgate_api::keys;
use serde_json::{Value, json};

/// One cell.
#[derive(Clone)]
pub(crate) struct Cell {
    /// Name of its Karmada Cluster.
    pub(crate) name: String,
    pub(crate) city: String,
    /// The cell's own API server.
    pub(crate) plane: Plane,
    /// The hub under the cell's certificate.
    pub(crate) hub: Plane,
}

/// The labels that link an Instance on every plane.
pub(crate) const LINKING: [&str; 7] = [
    keys::WORKLOAD_UID,
    keys::WORKLOAD_DEPLOYMENT_UID,
    keys::INSTANCE_INDEX,
    keys::WORKLOAD_DEPLOYMENT_NAME,
    keys::INSTANCE_CITY_CODE,
    keys::WORKLOAD_NAME,
    keys::PLACEMENT_NAME,
];

/// A time that never moves, so that nothing written twice differs.
pub(crate) const THEN: &str = "2026-05-04T10:00:00Z";

/// One condition as a cell writes it.
pub(crate) fn said(kind: &str, status: &str, reason: &str, generation: Option<i64>) -> Value {
    let mut condition = json!({
        "type": kind, "status": status, "reason": reason, "message": reason, "lastTransitionTime": THEN,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = json!(generation);
    }
    condition
}

impl Cell {
    pub(crate) fn new(access: &CellAccess) -> Self {
        Self {
            name: access.name.clone(),
            city: access.city.clone(),
            plane: access.plane.clone(),
            hub: access.hub.clone(),
        }
    }

    /// Waits until Karmada has delivered the deployment.
    pub(crate) async fn deployment(&self, ns: &str, name: &str) -> Value {
        self.plane.exists(&DEPLOYMENT, ns, name, seconds(120)).await
    }

    /// Waits until the delivered deployment passes `test`.
    pub(crate) async fn sees(
        &self,
        ns: &str,
        name: &str,
        what: &str,
        test: impl Fn(&Value) -> bool,
    ) -> Value {
        self.plane
            .sees(&DEPLOYMENT, ns, name, what, seconds(120), test)
            .await
    }

    /// Waits until the deployment is gone from the cell.
    pub(crate) async fn gone(&self, ns: &str, name: &str) {
        self.plane.gone(&DEPLOYMENT, ns, name, seconds(90)).await;
    }

    /// Waits until the namespace is gone from the cell.
    pub(crate) async fn namespace_gone(&self, ns: &str) {
        self.plane.gone(&NAMESPACE, "", ns, seconds(120)).await;
    }

    /// The status of a cell that acted on the deployment as it is there: `ready` of `desired` instances.
    pub(crate) async fn report(&self, ns: &str, name: &str, ready: u32, desired: u32) -> Value {
        let deployment = self.deployment(ns, name).await;
        let report = self.status_of(&deployment, ready, desired);
        self.plane.merge_status(&DEPLOYMENT, ns, name, report).await
    }

    /// That status; nothing is sent.
    pub(crate) fn status_of(&self, deployment: &Value, ready: u32, desired: u32) -> Value {
        let generation = deployment["metadata"]["generation"].as_i64();
        let (status, reason) = if ready > 0 {
            ("True", "StableInstanceFound")
        } else {
            ("False", "InstancesProvisioning")
        };
        json!({
            "location": {"name": format!("{}-a", self.name), "namespace": "default"},
            "observedGeneration": generation,
            "replicas": desired,
            "currentReplicas": ready,
            "updatedReplicas": desired,
            "desiredReplicas": desired,
            "readyReplicas": ready,
            "conditions": [said("Available", status, reason, generation)],
        })
    }

    /// Creates the Instance of that ordinal at the cell, waiting (`Ready=False`).
    pub(crate) async fn instance(&self, ns: &str, deployment: &str, ordinal: u32) -> Value {
        let owner = self.deployment(ns, deployment).await;
        let instance = self.instance_of(&owner, ordinal);
        let instance = self.plane.create(&INSTANCE, ns, instance).await;
        let name = instance["metadata"]["name"]
            .as_str()
            .expect("a stored object has a name");
        self.plane.merge_status(&INSTANCE, ns, name, waiting()).await
    }

    /// The Instance of that ordinal of a delivered deployment; nothing is sent.
    pub(crate) fn instance_of(&self, owner: &Value, ordinal: u32) -> Value {
        let (spec, deployment) = (&owner["spec"], owner["metadata"]["name"].as_str().unwrap_or("?"));
        let mut instance = json!({
            "metadata": {
                "name": format!("{deployment}-{ordinal}"),
                "labels": {
                    keys::WORKLOAD_UID: spec["workloadRef"]["uid"],
                    keys::WORKLOAD_DEPLOYMENT_UID: uid(owner),
                    keys::INSTANCE_INDEX: ordinal.to_string(),
                    keys::WORKLOAD_DEPLOYMENT_NAME: deployment,
                    keys::INSTANCE_CITY_CODE: self.city,
                    keys::WORKLOAD_NAME: spec["workloadRef"]["name"],
                    keys::PLACEMENT_NAME: spec["placementName"],
                },
                "ownerReferences": [controller(owner)],
            },
            "spec": spec["template"]["spec"],
        });
        instance["spec"]["controller"] = json!({
            "templateHash": "v1-2c26b46b68ffc68ff99b453c1d304134",
            "schedulingGates": [{"name": "Network"}],
        });
        instance
    }

    /// The write-back of a cell Instance, as the contract builds it; nothing is sent.
    pub(crate) async fn written_back(&self, instance: &Value) -> Value {
        let ns = instance["metadata"]["namespace"]
            .as_str()
            .expect("an Instance is namespaced");
        let namespace = self
            .hub
            .get(&NAMESPACE, "", ns)
            .await
            .expect("the hub namespace is there");
        let deployment = label(instance, keys::WORKLOAD_DEPLOYMENT_NAME).expect("a cell Instance is linked");
        let copy = self
            .hub
            .get(&DEPLOYMENT, ns, deployment)
            .await
            .expect("the copy is there");
        self.write_back_of(instance, &namespace, &copy)
    }

    /// The same for a hub namespace and a copy that are at hand.
    pub(crate) fn write_back_of(&self, instance: &Value, namespace: &Value, copy: &Value) -> Value {
        let mut labels = json!({keys::CELL: self.name});
        for key in [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE] {
            labels[key] = json!(label(namespace, key).expect("the hub namespace has its identity"));
        }
        for key in LINKING {
            labels[key] = json!(label(instance, key).expect("a cell Instance is linked"));
        }
        json!({
            "metadata": {
                "name": instance["metadata"]["name"],
                "labels": labels,
                "annotations": {keys::INSTANCE_UID: uid(instance)},
                "ownerReferences": [controller(copy)],
            },
            "spec": instance["spec"],
        })
    }

    /// Writes a cell Instance back to the hub: object, then status.
    pub(crate) async fn write_back(&self, instance: &Value) -> Value {
        let ns = instance["metadata"]["namespace"]
            .as_str()
            .expect("an Instance is namespaced");
        let name = instance["metadata"]["name"]
            .as_str()
            .expect("a stored object has a name");
        let object = self.written_back(instance).await;
        // A server that has just begun may not know for a while the kinds that its admission policies compare with; a cell
        // tries again.
        wait_for("the hub has its admission policies", seconds(60), || async {
            match self.hub.try_create(&INSTANCE, ns, object.clone()).await {
                Ok(_) => Some(()),
                Err(kube::Error::Api(refusal)) if refusal.message.contains("failed to configure policy") => {
                    None
                }
                Err(error) => panic!("create hub Instance {ns}/{name}: {error}"),
            }
        })
        .await;
        self.hub
            .merge_status(&INSTANCE, ns, name, instance["status"].clone())
            .await
    }

    /// An Instance at the cell and its write-back, which is returned.
    pub(crate) async fn run(&self, ns: &str, deployment: &str, ordinal: u32) -> Value {
        let instance = self.instance(ns, deployment, ordinal).await;
        self.write_back(&instance).await
    }
}

/// A controller reference to the deployment.
pub(crate) fn controller(owner: &Value) -> Value {
    json!({
        "apiVersion": DEPLOYMENT.api_version(), "kind": DEPLOYMENT.name,
        "name": owner["metadata"]["name"], "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Status of an Instance that waits for its network.
pub(crate) fn waiting() -> Value {
    json!({"conditions": [
        said("Programmed", "Unknown", "Pending", Some(1)),
        said("Available", "Unknown", "Pending", Some(1)),
        said("QuotaGranted", "True", "QuotaDisabled", Some(1)),
        said("Ready", "False", "SchedulingGatesPresent", Some(1)),
    ]})
}

/// Status of an Instance that runs.
pub(crate) fn running() -> Value {
    json!({"conditions": [
        said("Programmed", "True", "Programmed", Some(1)),
        said("Available", "True", "Available", Some(1)),
        said("QuotaGranted", "True", "QuotaDisabled", Some(1)),
        said("Ready", "True", "Available", Some(1)),
    ]})
}
