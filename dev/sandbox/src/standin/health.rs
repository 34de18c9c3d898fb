//! Probes each member and reports its reachability and its kinds in the status of its Cluster object.

use super::{
    refs::{CLUSTER, NAMESPACE, ObjectRef},
    world::{Call, Plane, StepError, World, now},
};
use fedgate_karmada::{Object, condition::Condition, list, names};
use kube::{Client, discovery::Discovery};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Interval between two probes. Karmada probes every 10 s and waits 30 s before it reports a failure.
const INTERVAL: Duration = Duration::from_secs(1);
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// Consecutive failed probes before a member is reported as unreachable.
const PATIENCE: u32 = 3;

/// Probes one member forever.
pub(super) async fn watch_member(world: Arc<World>, plane: Arc<Plane>) {
    let (member, client) = (&plane.name, &plane.client);
    let mut bad = 0;
    let mut space = None;
    loop {
        bad = if answers(client).await { 0 } else { bad + 1 };
        let kinds = if bad == 0 { kinds(client).await } else { None };
        if let Err(error) = keep_space(&world, member, &mut space).await {
            tracing::debug!(member, %error, "the namespace of a member's Works could not be made");
        }
        if (bad == 0 || bad >= PATIENCE)
            && let Err(error) = say(&world, member, bad == 0, kinds).await
        {
            tracing::debug!(member, %error, "the readiness of a member could not be written");
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

/// The kinds that the member serves, as Karmada lists them; `None` if the member does not say.
async fn kinds(client: &Client) -> Option<Value> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await.ok()?;
    let mut all = Vec::new();
    for group in discovery.groups_alphabetical() {
        for served in group.versions().map(|version| group.versioned_resources(version)) {
            let Some((first, _)) = served.first() else {
                continue;
            };
            let resources = served.iter();
            let resources = resources.map(|(kind, _)| json!({"name": kind.plural, "kind": kind.kind}));
            let resources: Vec<Value> = resources.collect();
            all.push(json!({"groupVersion": first.api_version, "resources": resources}));
        }
    }
    Some(Value::Array(all))
}

/// Makes the namespace of the Works of a member that has joined, and deletes that of one that has left: the one that it had
/// when its Cluster was seen last, whose UID is in `seen`. A join makes the namespace before the Cluster.
async fn keep_space(world: &World, member: &str, seen: &mut Option<String>) -> Result<(), StepError> {
    let at = ObjectRef::new(NAMESPACE, "", &names::work_namespace(member));
    if world.hub.synced(&[CLUSTER, NAMESPACE]).is_err() {
        return Ok(());
    }
    match (world.cluster(member), world.hub.get(&at)) {
        (Some(_), None) => {
            let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": at.name}});
            world.hub.send(&at, Call::Create(&space)).await.map(drop)
        }
        (Some(_), Some(space)) => {
            *seen = Some(space.uid().to_owned());
            Ok(())
        }
        (None, Some(space)) if seen.as_deref() == Some(space.uid()) => world.hub.delete(&space).await,
        _ => Ok(()),
    }
}

async fn say(world: &World, member: &str, is_ready: bool, kinds: Option<Value>) -> Result<(), StepError> {
    let Some(cluster) = world.cluster(member) else {
        return Ok(());
    };
    let (reason, message) = if is_ready {
        ("ClusterReady", "cluster is healthy and ready to accept workloads")
    } else {
        ("ClusterNotReachable", "cluster is not reachable")
    };
    let condition = Condition::new("Ready", is_ready, reason, message);
    let old = &cluster["status"]["conditions"];
    let is_said = |have: &Value| have["type"] == "Ready" && have["status"] == condition.status.as_str();
    let enabled = &cluster["status"]["apiEnablements"];
    if list(old).iter().any(is_said) && kinds.as_ref().is_none_or(|kinds| kinds == enabled) {
        return Ok(());
    }
    let mut status = json!({"conditions": condition.set_in(old, &now())});
    if let Some(kinds) = kinds {
        let complete = Condition::new("CompleteAPIEnablements", true, "Complete", "all APIs are known");
        status["conditions"] = complete.set_in(&status["conditions"], &now());
        status["apiEnablements"] = kinds;
    }
    world.hub.merge_status(&cluster, status).await.map(drop)
}
