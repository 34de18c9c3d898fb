//! Cells that run Pods: a binder in place of kube-scheduler, and KWOK, which plays the Node and everything on it. No container runs.
//!
//! The image and the annotations of a Pod determine its behaviour: `stages.yaml`.

mod forwards;

pub(super) use forwards::{Forwards, log};

use super::{
    CellSpec, Sandbox, User,
    apply::{Objects, await_true},
    binaries::Binaries,
    certs::write,
    layout::Layout,
    process::{Spec, flag},
    users::{Own, own_path},
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::ApiResource;
use serde_json::json;
use std::path::PathBuf;

/// KWOK's configuration.
const STAGES: &str = include_str!("stages.yaml");

/// Writes KWOK's configuration, which all cells share.
pub(super) fn write_stages(layout: &Layout) -> anyhow::Result<()> {
    write(&stages_path(layout), STAGES)
}

fn stages_path(layout: &Layout) -> PathBuf {
    layout.pki().join("kwok-stages.yaml")
}

/// The command lines for one cell.
pub(super) fn specs(
    binaries: &Binaries,
    cell: &str,
    layout: &Layout,
    forwards: Option<&Forwards>,
) -> anyhow::Result<[Spec; 2]> {
    let kubeconfig = |user| flag("--kubeconfig", &own_path(layout, user, cell));
    let binder = vec![kubeconfig(Own::Scheduler), format!("--node={}", node_name(cell))];
    let mut kwok = vec![
        kubeconfig(Own::Kwok),
        flag("--config", &stages_path(layout)),
        "--manage-all-nodes=true".to_owned(),
        // No leases: nobody doubts that the Node lives.
        "--node-lease-duration-seconds=0".to_owned(),
        "--cidr=10.64.0.0/14".to_owned(),
    ];
    if let Some(forwards) = forwards {
        kwok.extend(forwards.flags(cell, layout)?);
    }
    Ok([
        Spec::new(format!("{cell} pod-binder"), &binaries.binder, binder),
        Spec::new(format!("{cell} kwok"), &binaries.kwok, kwok),
    ])
}

/// The one Node of a cell. KWOK says the rest in its status.
pub(super) fn objects(cell: &str, objects: &mut Objects) -> anyhow::Result<()> {
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
pub(super) async fn ready(sandbox: &Sandbox, cells: &[CellSpec]) -> anyhow::Result<()> {
    let kind = ApiResource::erase::<Node>(&());
    let kind = &kind;
    let ready = cells.iter().map(|CellSpec { name, .. }| async move {
        let client = sandbox.client(name, User::Admin)?;
        await_true(name, &client, kind, &node_name(name), "Ready").await
    });
    try_join_all(ready).await.map(drop)
}
