//! Cells that run Pods: a binder in place of kube-scheduler, and KWOK, which plays the Node and everything on it. No container runs.
//!
//! What a Pod does is said by its image and its annotations, see `stages.yaml`.

mod forwards;

pub(super) use forwards::{Forwards, log};

use super::{
    CellSpec, Sandbox, SandboxError, User,
    apply::Objects,
    binaries::PodBinaries,
    certs::write,
    layout::Layout,
    process::Spec,
    users::{Own, own_path},
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube_runtime::wait::await_condition;
use serde_json::json;
use std::{path::PathBuf, time::Duration};

/// KWOK's configuration.
const STAGES: &str = include_str!("stages.yaml");
const READY_WITHIN: Duration = Duration::from_mins(2);

/// Writes KWOK's configuration, which all cells share.
pub(super) fn write_stages(layout: &Layout) -> Result<(), SandboxError> {
    write(&stages_path(layout), STAGES)
}

fn stages_path(layout: &Layout) -> PathBuf {
    layout.pki().join("kwok-stages.yaml")
}

/// The command lines for one cell.
pub(super) fn specs(
    binaries: &PodBinaries,
    cell: &str,
    layout: &Layout,
    forwards: Option<&Forwards>,
) -> Result<[Spec; 2], SandboxError> {
    let kubeconfig = |user| format!("--kubeconfig={}", own_path(layout, user, cell).display());
    let binder = vec![kubeconfig(Own::Scheduler), format!("--node={}", node_name(cell))];
    let mut kwok = vec![
        kubeconfig(Own::Kwok),
        format!("--config={}", stages_path(layout).display()),
        "--manage-all-nodes=true".to_owned(),
        // No leases: nobody doubts that the Node lives.
        "--node-lease-duration-seconds=0".to_owned(),
        "--cidr=10.64.0.0/14".to_owned(),
    ];
    if let Some(forwards) = forwards {
        kwok.extend(forwards.flags(cell, layout)?);
    }
    Ok([
        Spec {
            name: format!("{cell} pod-binder"),
            program: binaries.binder.clone(),
            args: binder,
        },
        Spec {
            name: format!("{cell} kwok"),
            program: binaries.kwok.clone(),
            args: kwok,
        },
    ])
}

/// The one Node of a cell. KWOK says the rest in its status.
pub(super) fn objects(cell: &str, objects: &mut Objects) -> Result<(), SandboxError> {
    let name = node_name(cell);
    objects.add(
        cell,
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            }},
        }),
    )
}

fn node_name(cell: &str) -> String {
    format!("{cell}-node-0")
}

/// Waits until every cell can run Pods.
pub(super) async fn ready(sandbox: &Sandbox, cells: &[CellSpec]) -> Result<(), SandboxError> {
    try_join_all(cells.iter().map(|cell| node_ready(sandbox, &cell.name)))
        .await
        .map(drop)
}

async fn node_ready(sandbox: &Sandbox, cell: &str) -> Result<(), SandboxError> {
    let api: Api<Node> = Api::all(sandbox.client(cell, User::Admin)?);
    let name = node_name(cell);
    let ready = await_condition(api, &name, |node: Option<&Node>| {
        let status = node.and_then(|node| node.status.as_ref());
        status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    match tokio::time::timeout(READY_WITHIN, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(sandbox.timeout(cell, format!("watching Node {name} failed: {error}"), 0)),
        Err(_) => Err(sandbox.timeout(cell, format!("Node {name} is not Ready"), READY_WITHIN.as_secs())),
    }
}
