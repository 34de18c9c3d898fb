//! Scheduler's and kubelet's part: a Pod is bound, runs with an address or does not find its image, and takes a moment to
//! stop.

use super::{Clock, is_going, text};
use crate::cell::{ops::BAD, planes::NS};
use fedgate_simulator::Plane;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::sleep};

/// A Pod is bound after this time, runs after as much again.
const STEP: Duration = Duration::from_millis(150);
/// What runs takes this long to stop.
const STOP: Duration = Duration::from_secs(2);
/// Stands for the grace that a bound Pod is given to stop.
const GRACE: &str = "test.fedgate.dev/grace";

pub(super) async fn act(cell: Plane, clock: Clock) {
    let mut changed = cell.changed();
    let mut tasks = JoinSet::new();
    let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
    loop {
        for pod in cell.list("Pod") {
            let uid = text(&pod, "uid").to_owned();
            if is_going(&pod) {
                if ended.insert(uid) {
                    tasks.spawn(stop(cell.clone(), pod));
                }
            } else if begun.insert(uid) {
                tasks.spawn(run(cell.clone(), pod, clock));
            }
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Whether the very same Pod is still there, and is not being deleted.
fn lives(cell: &Plane, pod: &Value) -> bool {
    let now = cell.get("Pod", NS, text(pod, "name"));
    now.is_some_and(|now| text(&now, "uid") == text(pod, "uid") && !is_going(&now))
}

async fn run(cell: Plane, pod: Arc<Value>, clock: Clock) {
    let name = text(&pod, "name");
    sleep(STEP).await;
    if !lives(&cell, &pod) {
        return;
    }
    let bound = json!({"metadata": {"finalizers": [GRACE]}, "spec": {"nodeName": "node-1"}});
    cell.merge("Pod", NS, name, bound).unwrap();
    sleep(STEP).await;
    if lives(&cell, &pod) {
        let status = json!({"status": status(&pod, clock)});
        cell.merge_status("Pod", NS, name, status).unwrap();
    }
}

fn status(pod: &Value, clock: Clock) -> Value {
    let container = &pod["spec"]["containers"][0];
    if container["image"] == BAD {
        return json!({
            "phase": "Pending",
            "conditions": [clock.condition("Ready", false, "ContainersNotReady", "")],
            "containerStatuses": [{
                "name": container["name"], "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}},
            }],
        });
    }
    // One address for each name: what comes of two runs must not differ by it.
    let digits = text(pod, "name")
        .rsplit('-')
        .next()
        .and_then(|n| n.parse::<u8>().ok());
    let address = format!("10.0.0.{}", digits.unwrap_or_default() + 1);
    json!({
        "phase": "Running",
        "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [clock.condition("Ready", true, "", "")],
        "containerStatuses": [{"name": container["name"], "restartCount": 0, "state": {"running": {}}}],
    })
}

async fn stop(cell: Plane, pod: Arc<Value>) {
    sleep(STOP).await;
    let free = json!({"metadata": {"finalizers": Value::Null}});
    cell.merge("Pod", NS, text(&pod, "name"), free).unwrap();
}
