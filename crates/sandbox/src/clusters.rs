//! The hub's Cluster objects, one per cell.

use super::{Sandbox, SandboxError, User};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use kube_runtime::wait::await_condition;
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_mins(2);

/// `Cluster` of `cluster.karmada.io`.
pub(super) fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "cluster.karmada.io",
        "v1alpha1",
        "Cluster",
    ))
}

/// Waits until the hub's controllers call a cell ready.
pub(super) async fn await_ready(sandbox: &Sandbox, cell: &str) -> Result<(), SandboxError> {
    let api: Api<DynamicObject> = Api::all_with(sandbox.client("hub", User::Admin)?, &resource());
    let ready = await_condition(api, cell, |cluster: Option<&DynamicObject>| {
        cluster.is_some_and(|cluster| {
            cluster.data["status"]["conditions"]
                .as_array()
                .is_some_and(|conditions| {
                    conditions
                        .iter()
                        .any(|c| c["type"] == "Ready" && c["status"] == "True")
                })
        })
    });
    match tokio::time::timeout(READY_WITHIN, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(sandbox.timeout("hub", format!("watching Cluster {cell} failed: {error}"), 0)),
        Err(_) => Err(sandbox.timeout(
            "hub",
            format!("Cluster {cell} is not Ready"),
            READY_WITHIN.as_secs(),
        )),
    }
}
