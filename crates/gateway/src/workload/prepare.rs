//! Converts a Workload's plan to effects of the executor.

use super::{decide::WorkloadEffect, observe::Observed};
use crate::reason::WriteReason;
use fedgate_api::{WorkloadDeployment, WorkloadStatus, keys};
use fedgate_engine::{
    key::Plane,
    plan::{Effect, Endpoint, ExactFields, Plan, Prepared, Target, Write},
};
use kube::core::{ApiResource, ObjectMeta};
use serde_json::{Value, json};

impl Observed {
    /// The plan with these writes.
    pub(super) fn prepare(&self, effects: Vec<WorkloadEffect>) -> Plan<Prepared> {
        let mut plan = Plan::default();
        plan.effects
            .extend(effects.into_iter().map(|effect| self.effect(effect)));
        plan
    }

    fn effect(&self, effect: WorkloadEffect) -> Effect {
        match effect {
            WorkloadEffect::AddFinalizer => {
                let all = self.foreign_finalizers().chain([keys::WORKLOAD_FINALIZER]);
                let write = self.finalizers(&all.collect::<Vec<_>>());
                Effect::main(self.workload(), write, WriteReason::HoldWorkload)
            }
            WorkloadEffect::RemoveFinalizer => {
                let write = self.finalizers(&self.foreign_finalizers().collect::<Vec<_>>());
                Effect::main(self.workload(), write, WriteReason::RemoveWorkloadFinalizer)
            }
            WorkloadEffect::Create(d) => {
                let target = self.deployment(d.metadata.name.as_deref());
                let body = self.written(&d);
                Effect::main(target, Write::create(body), WriteReason::CreateDeployment)
            }
            WorkloadEffect::Update(d) => {
                let target = self.deployment(d.metadata.name.as_deref());
                let (body, strict) = (self.written(&d), true);
                let write = Write::Update { body, strict };
                Effect::main(target, write, WriteReason::UpdateDeployment)
            }
            WorkloadEffect::ChangePlace(d) => {
                let target = self.deployment(d.metadata.name.as_deref());
                let patch = change_of_place(&d);
                Effect::main(target, Write::Merge { patch }, WriteReason::UpdateDeployment)
            }
            WorkloadEffect::Delete { name, uid } => {
                let target = self.deployment(Some(&name));
                Effect::main(target, Write::delete(&uid), WriteReason::DeleteDeployment)
            }
            WorkloadEffect::PatchStatus(status) => Effect {
                target: self.workload(),
                endpoint: Endpoint::Status,
                write: self.status(&status),
                reason: WriteReason::RollUp.into(),
            },
        }
    }

    /// A deployment without status, with the Workload's template as it is.
    fn written(&self, deployment: &WorkloadDeployment) -> Value {
        let mut body = serde_json::to_value(deployment).unwrap_or_default();
        if let Some(map) = body.as_object_mut() {
            map.remove("status");
        }
        body["spec"]["template"] = self.template.clone();
        body
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.snapshot.workload.metadata
    }

    fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// The address of the Workload.
    pub(super) fn workload(&self) -> Target {
        let name = self.metadata().name.as_deref();
        self.target(&self.workloads, name)
    }

    fn deployment(&self, name: Option<&str>) -> Target {
        self.target(&self.deployments, name)
    }

    fn target(&self, resource: &ApiResource, name: Option<&str>) -> Target {
        let plane = Plane::Project(self.project.clone());
        Target::namespaced(plane, resource, self.namespace(), name.unwrap_or_default())
    }

    fn foreign_finalizers(&self) -> impl Iterator<Item = &str> {
        let all = self.metadata().finalizers.iter().flatten();
        all.map(String::as_str)
            .filter(|finalizer| *finalizer != keys::WORKLOAD_FINALIZER)
    }

    fn finalizers(&self, wanted: &[&str]) -> Write {
        let uid = &self.metadata().uid;
        let metadata = json!({"uid": uid, "resourceVersion": self.version, "finalizers": wanted});
        Write::Merge {
            patch: json!({"metadata": metadata}),
        }
    }

    fn status(&self, status: &WorkloadStatus) -> Write {
        let metadata = self.metadata();
        let body = json!({
            "apiVersion": self.workloads.api_version,
            "kind": self.workloads.kind,
            "metadata": {"name": metadata.name, "namespace": self.namespace(), "uid": metadata.uid},
            "status": status,
        });
        Write::Apply {
            body,
            exact: ExactFields::roots(["status"]),
        }
    }
}

/// An absent field and label are null: whichever request has written them, this one removes them.
pub(super) fn change_of_place(deployment: &WorkloadDeployment) -> Value {
    let WorkloadDeployment { metadata, spec, .. } = deployment;
    let location = metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(keys::INSTANCE_LOCATION));
    json!({
        "metadata": {"uid": metadata.uid, "labels": {keys::INSTANCE_LOCATION: location}},
        "spec": {
            "placementName": spec.placement_name,
            "cityCode": spec.city_code,
            "locationRef": spec.location_ref,
        },
    })
}
