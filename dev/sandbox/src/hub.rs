//! The hub's controllers and what the hub must have before they start.

use super::{
    CellSpec, HubControllers, Options, Sandbox, User,
    apply::{Objects, await_true},
    certs::Files,
    child::StandInArgs,
    conditions,
    karmada::Karmada,
    process::Process,
};
use crate::error::on;
use anyhow::Context;
use fedgate_api::keys::{CITY_CODE, STAND_IN};
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

const KINDS: &str = include_str!("crds/karmada.yaml");

/// Adds CRDs and, where nobody else makes them, Cluster objects. `karmada` is what plays Karmada if that is Karmada itself.
pub(super) fn objects(
    options: &Options,
    karmada: Option<&Karmada>,
    ca_base64: &str,
    objects: &mut Objects,
) -> anyhow::Result<()> {
    if let Some(karmada) = karmada {
        return karmada.objects(ca_base64, objects);
    }
    objects.add_yaml("stand-in", KINDS)?;
    let cells = options.registered();
    cells
        .iter()
        .try_for_each(|cell| objects.add("stand-in", cluster(cell)))
}

/// Starts the controllers once all planes are ready, and waits until they work.
pub(super) async fn start(
    sandbox: &Sandbox,
    options: &Options,
    karmada: Option<&Karmada>,
    files: &Files,
) -> anyhow::Result<Vec<Process>> {
    let cells = options.registered();
    if let Some(karmada) = karmada {
        return karmada.start(sandbox, &cells, files).await;
    }
    if options.hub_controllers == HubControllers::Nobody {
        clusters_ready(sandbox, &cells).await?;
        return Ok(Vec::new());
    }
    // A process of its own, as Karmada's are.
    let line = StandInArgs::line("standin", &sandbox.layout, options, 0);
    let process = sandbox
        .launcher
        .start(&sandbox.launcher.own("hub stand-in", line))?;
    let ready = try_join_all(cells.iter().map(|cell| await_ready(sandbox, &cell.name)));
    tokio::select! {
        ready = ready => ready.map(|_| vec![process]),
        how = process.wait() => {
            Err(process.failure(format!("ended while starting ({how})"), "read the whole log"))
        }
    }
}

/// `Cluster` of `cluster.karmada.io`.
pub(super) fn clusters() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "cluster.karmada.io",
        "v1alpha1",
        "Cluster",
    ))
}

/// Waits until the hub's controllers call a cell ready.
pub(super) async fn await_ready(sandbox: &Sandbox, cell: &str) -> anyhow::Result<()> {
    let hub = sandbox.client("hub", User::Admin)?;
    await_true("hub", &hub, &clusters(), cell, "Ready").await
}

fn cluster(cell: &CellSpec) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": cell.name, "labels": {CITY_CODE: cell.city}, "annotations": {STAND_IN: "true"}},
        "spec": {"syncMode": "Push"},
    })
}

/// Gives Clusters the condition that Karmada's cluster controller gives to reachable members.
async fn clusters_ready(sandbox: &Sandbox, cells: &[CellSpec]) -> anyhow::Result<()> {
    let api: Api<DynamicObject> = Api::all_with(sandbox.client("hub", User::Admin)?, &clusters());
    let ready = ("Ready", true, "ClusterReady", "set by the sandbox");
    let conditions = conditions::with(&Value::Null, ready, Timestamp::now());
    let status = json!({"status": {"conditions": conditions}});
    for cell in cells {
        let action = format!("write the status of Cluster {}", cell.name);
        api.patch_status(&cell.name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .with_context(on("hub", action))?;
    }
    Ok(())
}
