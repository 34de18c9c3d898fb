//! Karmada's Clusters, which several checks read.

use super::{Check, Finding, PreflightError, Subject, definitions};
use crate::membership::cluster::Cluster;
use fedgate_engine::plane::client::PlaneClient;
use fedgate_gateway::index::single_member::NO_MEMBER;
use kube::core::ApiResource;
use serde_json::Value;

pub(super) fn resource() -> ApiResource {
    fedgate_gateway::index::resource("cluster.karmada.io", "v1alpha1", "Cluster")
}

/// The hub's Clusters, at most 500.
pub(super) async fn list(hub: &PlaneClient) -> Result<Vec<Value>, PreflightError> {
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters?limit=500";
    let mut listed = definitions::ask(hub, path, ("list", "clusters.cluster.karmada.io")).await?;
    Ok(serde_json::from_value(listed["items"].take()).unwrap_or_default())
}

/// Finds the Cluster by whose name a policy says that no member gets an object; `None` without one.
pub(super) fn named_none(subject: &Subject, clusters: &[Value]) -> Option<Finding> {
    let mut clusters = clusters.iter().map(Cluster);
    clusters.any(|cluster| cluster.name() == NO_MEMBER).then(|| {
        subject.fail(
            Check::Cells,
            format!("Cluster {NO_MEMBER} has the name by which a policy gives an object to no member, so it may get such objects"),
            format!(
                "join it under another name, and take this one away: fedgate cells leave {NO_MEMBER} --hub-kubeconfig FILE"
            ),
        )
    })
}
