//! States that somebody brings about by what he writes: objects without an origin, of a wrong identity, or in another's
//! place, and fields that he changes back.

use super::{
    desk::{Desk, TOKEN},
    shows::State,
};
use crate::support::{
    kinds::{CELL, DEFINITION, DEPLOYMENT, INSTANCE, Kind, NAMESPACE, kind},
    label,
    plane::Plane,
    seconds, wait_for,
};
use fedgate_api::keys;
use fedgate_provisioner::reason::{Problem, Reason};
use futures::StreamExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::{sync::Mutex, task::JoinHandle};

const INTERPRETER: Kind = kind(
    "config.karmada.io",
    "v1alpha1",
    "ResourceInterpreterCustomization",
    "resourceinterpretercustomizations",
    false,
);
/// The interpreter of deployments.
const OURS: &str = "workloaddeployment";
/// The field manager of whoever writes it.
const INTRUDER: &str = "intruder";
/// The Instance whose name the tenant takes, and the number that is wished so that a cell makes it.
const TAKEN: (&str, u64) = ("web-us-dfw-3", 4);
const CELLS: &str = "cells.fedgate.dev";
/// A write-back with another project's labels.
const FORGED: &str = "forged-0";
pub(super) const COPY: &str = "web-us-dfw";

/// Disturbances that a deletion alone does not end.
#[derive(Default)]
pub(super) struct Planted {
    /// Changes the copy back again and again.
    rival: Mutex<Option<JoinHandle<()>>>,
    /// The interpreter's spec, while it is another.
    interpreter: Mutex<Option<Value>>,
}

/// More copies without an origin than one project may lose at once.
fn orphans() -> impl Iterator<Item = String> {
    (0..14).map(|number| format!("orphan-{number}"))
}

/// One merge patch under the intruder's name.
async fn intrude(plane: &Plane, kind: &Kind, namespace: &str, name: &str, patch: &Value) {
    let params = PatchParams {
        field_manager: Some(INTRUDER.to_owned()),
        ..PatchParams::default()
    };
    let api = plane.api(kind, namespace);
    let patched = api.patch(name, &params, &Patch::Merge(patch)).await;
    patched.unwrap_or_else(|error| panic!("patch {name}: {error}"));
}

impl Desk {
    /// Brings about one of these states.
    pub(super) async fn plant(&self, state: State) {
        match state {
            State::CellFailed => self.fail_a_cell().await,
            State::NameTaken => self.take_name().await,
            State::Forged => self.forge().await,
            State::Orphaned => self.orphan().await,
            State::Fought => self.fight().await,
            State::Drifted => self.drift().await,
            other => panic!("{other:?} is not planted"),
        }
    }

    /// Takes it back; one that was not brought about stays as it is.
    pub(super) async fn uproot(&self, state: State) {
        let (hub, hub_ns) = (&self.case.hub, &self.case.hub_ns);
        match state {
            // The definition takes its Cells along.
            State::CellFailed => {
                hub.delete(&DEFINITION, "", CELLS).await;
                hub.gone(&DEFINITION, "", CELLS, seconds(60)).await;
            }
            State::NameTaken => {
                let (project, ns) = (&self.case.project, &self.case.ns);
                let taken = project.get(&INSTANCE, ns, TAKEN.0).await;
                // In its place is the projection, once the name is free.
                if taken.is_some_and(|taken| label(&taken, keys::UPSTREAM_CLUSTER).is_none()) {
                    project.delete(&INSTANCE, ns, TAKEN.0).await;
                }
            }
            State::Forged => hub.delete(&INSTANCE, hub_ns, FORGED).await,
            State::Orphaned => {
                for name in orphans() {
                    hub.delete(&DEPLOYMENT, hub_ns, &name).await;
                }
            }
            State::Fought => {
                if let Some(rival) = self.planted.rival.lock().await.take() {
                    rival.abort();
                }
            }
            State::Drifted => {
                if let Some(spec) = self.planted.interpreter.lock().await.take() {
                    hub.merge(&INTERPRETER, "", OURS, json!({"spec": spec})).await;
                }
            }
            other => panic!("{other:?} is not planted"),
        }
    }

    /// A Cell with the status that the provisioner writes if the Secret is missing.
    async fn fail_a_cell(&self) {
        let hub = &self.case.hub;
        let definition = fedgate_api::crd::cell().expect("the definition");
        // Another test may have left it.
        if hub.get(&DEFINITION, "", CELLS).await.is_none() {
            hub.create(&DEFINITION, "", definition).await;
        }
        let cell = json!({"metadata": {"name": "dfw-2"},
            "spec": {"city": "DFW", "provider": {"existing": {"kubeconfigSecret": "dfw-2-admin"}}}});
        wait_for("Cells are served", seconds(30), async || {
            hub.try_create(&CELL, "", cell.clone()).await.ok()
        })
        .await;
        let problem = Problem::new(
            Reason::SecretMissing,
            "Secret fedgate-provisioner/dfw-2-admin does not exist",
        );
        let condition = |of: &str| {
            json!({"type": of, "status": "False", "reason": problem.reason.as_str(), "message": problem.message(),
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({"phase": "Failed", "provider": "existing", "conditions": [condition("Validated"), condition("Ready")]});
        hub.merge_status(&CELL, "", "dfw-2", status).await;
    }

    /// The tenant has an Instance of his own under the name of one that a cell reports later.
    async fn take_name(&self) {
        let (project, ns) = (&self.case.project, &self.case.ns);
        let first = project.get(&INSTANCE, ns, "web-us-dfw-0").await;
        let spec = first.expect("the first Instance is there")["spec"].clone();
        let own = json!({"metadata": {"name": TAKEN.0}, "spec": spec});
        project.create(&INSTANCE, ns, own).await;
        self.edit(TAKEN.1).await;
        self.says("stuck?class=quarantined", TAKEN.0).await;
    }

    /// A write-back for another project, and labels of a hub Namespace that are those of another one.
    async fn forge(&self) {
        let (hub, hub_ns) = (&self.case.hub, &self.case.hub_ns);
        let first = hub.get(&INSTANCE, hub_ns, "web-us-dfw-0").await;
        let first = first.expect("the first Instance is there");
        let mut labels = first["metadata"]["labels"].clone();
        labels[keys::UPSTREAM_CLUSTER] = json!("cluster-beta");
        let forged = json!({"metadata": {"name": FORGED, "labels": labels}, "spec": first["spec"]});
        hub.create(&INSTANCE, hub_ns, forged).await;
        self.says("stuck?class=quarantined", FORGED).await;
        let mark = self.gateway.log_mark();
        let edit = json!({"metadata": {"labels": {keys::UPSTREAM_NAMESPACE: "elsewhere"}}});
        intrude(hub, &NAMESPACE, "", hub_ns, &edit).await;
        self.logs(mark, "identity labels were edited").await;
    }

    /// Copies whose deployments the project does not have. No cell serves their city.
    async fn orphan(&self) {
        let (hub, hub_ns) = (&self.case.hub, &self.case.hub_ns);
        let copy = hub.get(&DEPLOYMENT, hub_ns, COPY).await;
        let spec = copy.expect("the copy is there")["spec"].clone();
        for (number, name) in orphans().enumerate() {
            let mut spec = spec.clone();
            spec["cityCode"] = json!("NOWHERE");
            let orphan = json!({"metadata": {"name": name,
                "labels": {keys::CITY_CODE: "NOWHERE", keys::UPSTREAM_NAMESPACE: self.case.ns},
                "annotations": {keys::SOURCE_GENERATION: "1",
                    keys::SOURCE_UID: format!("00000000-0000-4000-8000-0000000000{number:02}")}},
                "spec": spec});
            hub.create(&DEPLOYMENT, hub_ns, orphan).await;
        }
        self.says("stuck?class=brake", "orphans").await;
    }

    /// Another client changes a field of the copy each time that the gateway has restored it.
    async fn fight(&self) {
        let (hub, hub_ns) = (self.case.hub.clone(), self.case.hub_ns.clone());
        let rival = tokio::spawn(async move {
            let mut states = hub.states(&DEPLOYMENT, &hub_ns, COPY);
            let other = json!({"spec": {"scaleSettings": {"instanceManagementPolicy": "Parallel"}}});
            while let Some(state) = states.next().await {
                let ours =
                    |copy: &Value| copy["spec"]["scaleSettings"]["instanceManagementPolicy"] != "Parallel";
                if state.as_ref().is_some_and(ours) {
                    intrude(&hub, &DEPLOYMENT, &hub_ns, COPY, &other).await;
                }
            }
        });
        *self.planted.rival.lock().await = Some(rival);
        wait_for("the fight is counted", seconds(60), || async {
            let (_, page) = self.gateway.answer_to(TOKEN, "/metrics").await?;
            let mut lines = page
                .lines()
                .filter(|line| line.starts_with("fedgate_write_fights_total{"));
            let counted = |line: &str| line.contains("deployment") && !line.ends_with(" 0");
            lines.any(|line| counted(&line.to_lowercase())).then_some(())
        })
        .await;
    }

    /// The interpreter differs for a while: the gateway restores it at once, and the second time a minute later.
    async fn drift(&self) {
        let hub = &self.case.hub;
        let ours = hub.get(&INTERPRETER, "", OURS).await;
        let ours = ours.expect("the gateway has written its interpreter")["spec"].clone();
        let edit = json!({"spec": {"customizations": {"healthInterpretation": {"luaScript":
            "function InterpretHealth(observed) return false end"}}}});
        *self.planted.interpreter.lock().await = Some(ours.clone());
        intrude(hub, &INTERPRETER, "", OURS, &edit).await;
        let restored = |now: &Value| now["spec"] == ours;
        hub.sees(&INTERPRETER, "", OURS, "is restored", seconds(90), restored)
            .await;
        intrude(hub, &INTERPRETER, "", OURS, &edit).await;
        self.says("stuck?class=brake", "drift").await;
    }
}
