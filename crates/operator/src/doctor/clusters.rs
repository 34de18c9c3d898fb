//! Karmada's Clusters, which several checks read.

use super::{Check, Finding, PreflightError, Subject};
use fedgate_api::keys::STAND_IN;
use fedgate_engine::plane::client::PlaneClient;
use fedgate_gateway::index::single_member::NO_MEMBER;
use kube::{
    Api,
    api::ListParams,
    core::{ApiResource, DynamicObject},
};

/// Most Clusters that are read.
const AT_MOST: u32 = 500;

pub(super) fn resource() -> ApiResource {
    fedgate_gateway::index::resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters")
}

/// The hub's Clusters.
pub(super) async fn list(hub: &PlaneClient) -> Result<Vec<DynamicObject>, PreflightError> {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &resource());
    let list = api.list(&ListParams::default().limit(AT_MOST)).await;
    let list = list.map_err(|e| PreflightError::of(&e, "list", "clusters.cluster.karmada.io"))?;
    Ok(list.items)
}

/// Finds the Cluster by whose name a policy says that no member gets an object; `None` without one.
pub(super) fn named_none(subject: &Subject, clusters: &[DynamicObject]) -> Option<Finding> {
    let is_named = |cluster: &DynamicObject| cluster.metadata.name.as_deref() == Some(NO_MEMBER);
    clusters.iter().any(is_named).then(|| {
        subject.fail(
            Check::Cells,
            format!("Cluster {NO_MEMBER} has the name by which a policy gives an object to no member, so it may get such objects"),
            format!(
                "join it under another name, and take this one away: fedgate cells leave {NO_MEMBER} --hub-kubeconfig FILE"
            ),
        )
    })
}

pub(super) fn is_ready(cluster: &DynamicObject) -> bool {
    let conditions = cluster.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// True if the Cluster is of the sandbox's stand-in for Karmada.
pub(super) fn is_stand_in(cluster: &DynamicObject) -> bool {
    let annotations = cluster.metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(STAND_IN))
}
