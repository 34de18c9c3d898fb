//! The part of a cell, played: Instances at the cell, their write-backs on the hub, status of both
//! (contract: federation.md §6).

use super::kinds::{DEPLOYMENT, INSTANCE, Kind, NAMESPACE};
use crate::{
    api::{API_VERSION, keys},
    sandbox::SandboxError,
};
use kube::{
    Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The labels that link an Instance on every plane.
const LINKING: [&str; 7] = [
    keys::WORKLOAD_UID,
    keys::WORKLOAD_DEPLOYMENT_UID,
    keys::INSTANCE_INDEX,
    keys::WORKLOAD_DEPLOYMENT_NAME,
    keys::INSTANCE_CITY_CODE,
    keys::WORKLOAD_NAME,
    keys::PLACEMENT_NAME,
];

/// What an API server says while it has not found the kind of an admission policy's parameters: it looks every half
/// minute.
const UNREADY: &str = "failed to configure policy";
const ADMITTED_WITHIN: Duration = Duration::from_mins(1);

/// One cell with its two connections.
pub(super) struct Cell {
    /// Name of the plane and of the Karmada Cluster.
    pub(super) name: String,
    pub(super) city: String,
    /// The cell's own API server.
    pub(super) local: Client,
    /// The hub, under the cell's certificate.
    pub(super) hub: Client,
    /// The tenant's namespace on hub and cells.
    pub(super) namespace: String,
}

impl Cell {
    /// Makes the deployment's Instance of this ordinal, waiting for its network, and writes it back.
    pub(super) async fn start(&self, deployment: &Value, ordinal: i64) -> Result<(), SandboxError> {
        let (name, spec) = (text(&deployment["metadata"]["name"]), &deployment["spec"]);
        let mut template = spec["template"]["spec"].clone();
        template["controller"] = json!({
            "templateHash": format!("played-{}", deployment["metadata"]["generation"]),
            "schedulingGates": [{"name": "Network"}],
        });
        let instance = json!({
            "apiVersion": API_VERSION,
            "kind": "Instance",
            "metadata": {
                "name": format!("{name}-{ordinal}"),
                "namespace": self.namespace,
                "labels": {
                    keys::WORKLOAD_UID: spec["workloadRef"]["uid"],
                    keys::WORKLOAD_DEPLOYMENT_UID: deployment["metadata"]["uid"],
                    keys::INSTANCE_INDEX: ordinal.to_string(),
                    keys::WORKLOAD_DEPLOYMENT_NAME: name,
                    keys::INSTANCE_CITY_CODE: self.city,
                    keys::WORKLOAD_NAME: spec["workloadRef"]["name"],
                    keys::PLACEMENT_NAME: spec["placementName"],
                },
                "ownerReferences": [controller(deployment)],
            },
            "spec": template,
        });
        let instance = self.create(&self.name, &self.local, instance).await?;
        let written_back = self.written_back(&instance).await?;
        self.create("hub", &self.hub, written_back).await?;
        self.instance_status(name, ordinal, &waiting()).await
    }

    /// The Instance runs: its gate goes and it is ready.
    pub(super) async fn run(&self, deployment: &str, ordinal: i64) -> Result<(), SandboxError> {
        let name = format!("{deployment}-{ordinal}");
        let gone = json!({"spec": {"controller": {"schedulingGates": null}}});
        for (plane, client) in [(self.name.as_str(), &self.local), ("hub", &self.hub)] {
            INSTANCE
                .api(client.clone(), &self.namespace)
                .patch(&name, &PatchParams::default(), &Patch::Merge(&gone))
                .await
                .map_err(SandboxError::api(plane, format!("patch Instance {name}")))?;
        }
        self.instance_status(deployment, ordinal, &running(ordinal)).await
    }

    /// Deletes the Instance, its write-back first.
    pub(super) async fn stop(&self, deployment: &str, ordinal: i64) -> Result<(), SandboxError> {
        let name = format!("{deployment}-{ordinal}");
        for (plane, client) in [("hub", &self.hub), (self.name.as_str(), &self.local)] {
            let uid = self.get(plane, client, &INSTANCE, &name).await?.metadata.uid;
            let params = DeleteParams::default().preconditions(Preconditions {
                uid,
                resource_version: None,
            });
            INSTANCE
                .api(client.clone(), &self.namespace)
                .delete(&name, &params)
                .await
                .map_err(SandboxError::api(plane, format!("delete Instance {name}")))?;
        }
        Ok(())
    }

    /// Writes the status of the delivered deployment: this many Instances, all of them ready.
    pub(super) async fn report(&self, deployment: &str, count: i64) -> Result<(), SandboxError> {
        let seen = self.get(&self.name, &self.local, &DEPLOYMENT, deployment).await?;
        let generation = seen.metadata.generation;
        let status = json!({"status": {
            "location": {"name": format!("{}-a", self.name), "namespace": "default"},
            "observedGeneration": generation,
            "replicas": count,
            "currentReplicas": count,
            "updatedReplicas": count,
            "desiredReplicas": count,
            "readyReplicas": count,
            "conditions": [said("Available", "True", "StableInstanceFound", generation)],
        }});
        let api = DEPLOYMENT.api(self.local.clone(), &self.namespace);
        self.status(&self.name, &api, deployment, &status).await
    }

    async fn instance_status(
        &self,
        deployment: &str,
        ordinal: i64,
        status: &Value,
    ) -> Result<(), SandboxError> {
        let (name, status) = (format!("{deployment}-{ordinal}"), json!({"status": status}));
        for (plane, client) in [(self.name.as_str(), &self.local), ("hub", &self.hub)] {
            let api = INSTANCE.api(client.clone(), &self.namespace);
            self.status(plane, &api, &name, &status).await?;
        }
        Ok(())
    }

    async fn status(
        &self,
        plane: &str,
        api: &kube::Api<DynamicObject>,
        name: &str,
        status: &Value,
    ) -> Result<(), SandboxError> {
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .map(|_| ())
            .map_err(SandboxError::api(plane, format!("write the status of {name}")))
    }

    /// The write-back of a cell's Instance: identity from the hub Namespace, owned by the copy.
    async fn written_back(&self, instance: &Value) -> Result<Value, SandboxError> {
        let labels_here = &instance["metadata"]["labels"];
        let deployment = text(&labels_here[keys::WORKLOAD_DEPLOYMENT_NAME]);
        let namespace = self.get("hub", &self.hub, &NAMESPACE, &self.namespace).await?;
        let copy = self.get("hub", &self.hub, &DEPLOYMENT, deployment).await?;
        let mut labels = json!({keys::CELL: self.name});
        for key in [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE] {
            let value = namespace
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key));
            labels[key] = json!(value.ok_or_else(|| {
                SandboxError::Demo(format!("hub Namespace {} has no label {key}", self.namespace))
            })?);
        }
        for key in LINKING {
            labels[key] = labels_here[key].clone();
        }
        Ok(json!({
            "apiVersion": API_VERSION,
            "kind": "Instance",
            "metadata": {
                "name": instance["metadata"]["name"],
                "namespace": self.namespace,
                "labels": labels,
                "annotations": {keys::INSTANCE_UID: instance["metadata"]["uid"]},
                "ownerReferences": [controller(&body("hub", &copy)?)],
            },
            "spec": instance["spec"],
        }))
    }

    async fn create(&self, plane: &str, client: &Client, object: Value) -> Result<Value, SandboxError> {
        let action = format!("create Instance {}", text(&object["metadata"]["name"]));
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|e| SandboxError::Demo(format!("{action} on {plane}: no object: {e}")))?;
        let api = INSTANCE.api(client.clone(), &self.namespace);
        let started = Instant::now();
        loop {
            match api.create(&PostParams::default(), &object).await {
                Ok(made) => return body(plane, &made),
                Err(kube::Error::Api(refusal))
                    if refusal.message.contains(UNREADY) && started.elapsed() < ADMITTED_WITHIN =>
                {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => return Err(SandboxError::api(plane, action)(error)),
            }
        }
    }

    async fn get(
        &self,
        plane: &str,
        client: &Client,
        kind: &Kind,
        name: &str,
    ) -> Result<DynamicObject, SandboxError> {
        kind.api(client.clone(), &self.namespace)
            .get(name)
            .await
            .map_err(SandboxError::api(plane, format!("get {} {name}", kind.kind)))
    }
}

fn body(plane: &str, object: &DynamicObject) -> Result<Value, SandboxError> {
    serde_json::to_value(object)
        .map_err(|e| SandboxError::Demo(format!("an object of {plane} is no JSON: {e}")))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn controller(owner: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "WorkloadDeployment",
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    })
}

fn said(kind: &str, status: &str, reason: &str, generation: Option<i64>) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "type": kind, "status": status, "reason": reason, "message": "",
        "lastTransitionTime": now, "observedGeneration": generation,
    })
}

fn waiting() -> Value {
    json!({"conditions": [
        said("Programmed", "Unknown", "Pending", Some(1)),
        said("Available", "Unknown", "Pending", Some(1)),
        said("QuotaGranted", "True", "QuotaDisabled", Some(1)),
        said("Ready", "False", "SchedulingGatesPresent", Some(1)),
    ]})
}

fn running(ordinal: i64) -> Value {
    json!({
        "conditions": [
            said("Programmed", "True", "Programmed", Some(1)),
            said("Available", "True", "Available", Some(1)),
            said("QuotaGranted", "True", "QuotaDisabled", Some(1)),
            said("Ready", "True", "Available", Some(1)),
        ],
        "networkInterfaces": [{"assignments": {"networkIP": format!("10.0.0.{}", 10 + ordinal)}}],
    })
}
