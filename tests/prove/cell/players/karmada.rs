//! Karmada's part: what is on the hub is brought to the cell, and taken away with it.

use super::{is_going, text};
use crate::cell::planes::NS;
use fedgate_simulator::Plane;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Karmada takes so long for anything.
const DELAY: Duration = Duration::from_millis(100);
const KIND: &str = "WorkloadDeployment";
/// Annotation of what was delivered: UID of the hub's.
const OF: &str = "test.fedgate.dev/hub-uid";

pub(super) async fn act(hub: Plane, cell: Plane, mut delivers: watch::Receiver<bool>) {
    let mut changed = hub.changed();
    loop {
        tokio::time::sleep(DELAY).await;
        if delivers.wait_for(|delivers| *delivers).await.is_err() {
            return;
        }
        for delivered in cell.list(KIND) {
            let origin = hub.get(KIND, NS, text(&delivered, "name"));
            let stays =
                origin.is_some_and(|o| o["metadata"]["uid"] == delivered["metadata"]["annotations"][OF]);
            if !stays {
                cell.delete(KIND, NS, text(&delivered, "name")).unwrap();
            }
        }
        for origin in hub.list(KIND) {
            deliver(&cell, &origin);
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

fn deliver(cell: &Plane, origin: &Arc<Value>) {
    let name = text(origin, "name");
    let annotations = origin["metadata"]["annotations"].as_object();
    let mut annotations: Map<String, Value> = annotations.cloned().unwrap_or_default();
    annotations.insert(OF.to_owned(), json!(text(origin, "uid")));
    let Some(delivered) = cell.get(KIND, NS, name) else {
        if !is_going(origin) {
            let object = json!({
                "apiVersion": origin["apiVersion"], "kind": KIND,
                "metadata": {"name": name, "namespace": NS, "labels": origin["metadata"]["labels"], "annotations": annotations},
                "spec": origin["spec"],
            });
            cell.create(object).unwrap();
        }
        return;
    };
    let had = delivered["metadata"]["annotations"].as_object();
    let mut patch = json!({"spec": origin["spec"], "metadata": {"annotations": annotations}});
    for key in had.into_iter().flat_map(Map::keys) {
        if !annotations.contains_key(key) {
            patch["metadata"]["annotations"][key] = Value::Null;
        }
    }
    if delivered["spec"] != origin["spec"] || had != Some(&annotations) {
        cell.merge(KIND, NS, name, patch).unwrap();
    }
}
