//! Probes each member and reports its reachability in the condition `Ready` of its Cluster object.

use super::{
    refs::Plane,
    wire,
    world::{StepError, World, now},
};
use fedgate_karmada::condition::Condition;
use kube::Client;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Interval between two probes. Karmada probes every 10 s and waits 30 s before it reports a failure.
const INTERVAL: Duration = Duration::from_secs(1);
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// Consecutive failed probes before a member is reported as unreachable.
const PATIENCE: u32 = 3;

/// Probes one member forever.
pub(super) async fn watch_member(world: Arc<World>, member: Arc<str>, client: Client) {
    let mut bad = 0;
    loop {
        bad = if answers(&client).await { 0 } else { bad + 1 };
        if (bad == 0 || bad >= PATIENCE)
            && let Err(error) = say(&world, &member, bad == 0).await
        {
            tracing::debug!(%member, %error, "the readiness of a member could not be written");
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn answers(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else {
        return false;
    };
    matches!(
        tokio::time::timeout(ANSWER_LIMIT, client.request_text(request)).await,
        Ok(Ok(_))
    )
}

async fn say(world: &World, member: &str, ready: bool) -> Result<(), StepError> {
    let clusters = world.mirrors.get(&Plane::Hub, &wire::cluster());
    let Some(cluster) = clusters.and_then(|clusters| clusters.get("", member)) else {
        return Ok(());
    };
    let condition = if ready {
        Condition::new(
            "Ready",
            true,
            "ClusterReady",
            "cluster is healthy and ready to accept workloads",
        )
    } else {
        Condition::new("Ready", false, "ClusterNotReachable", "cluster is not reachable")
    };
    let old = &cluster.data["status"]["conditions"];
    let said = old
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .any(|have| have["type"] == "Ready" && have["status"] == condition.status.as_str());
    if said {
        return Ok(());
    }
    let conditions = condition.set_in(old, &now());
    world
        .merge_status(&wire::cluster(), &cluster, json!({"conditions": conditions}))
        .await
        .map(drop)
}
