//! `fedgate-sandbox watch`: changes of objects on several planes, each with the time at which it was seen.

use super::child;
use crate::error::{cannot, on};
use anyhow::Context;
use futures::{StreamExt, stream::select_all};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    discovery::{ApiGroup, Discovery, verbs},
};
use kube_runtime::{WatchStreamExt, watcher, watcher::Event};
use std::{collections::BTreeMap, io::Write, path::Path};

/// Kinds of Kubernetes that a tenant's deployment leads to. Of all other groups every kind is watched.
const CORE: [&str; 3] = ["ConfigMap", "Pod", "Secret"];

/// Prints every change of an object in these namespaces, `(plane, namespace)` each, until nobody reads it.
///
/// The first line says that all objects have been listed. A line is `<time> <plane> <kind> <name>: <state>`; the time is UTC.
pub(super) async fn watch(kubeconfig: &Path, places: &[(String, String)]) -> anyhow::Result<()> {
    let mut watches = Vec::new();
    for (plane, namespace) in places {
        let client = child::client(kubeconfig, Some(plane)).await?;
        for kind in kinds(plane, &client).await? {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
            let (plane, kind) = (plane.as_str(), kind.kind);
            let events = watcher(api, watcher::Config::default()).default_backoff();
            watches.push(events.map(move |event| (plane, kind.clone(), event)).boxed());
        }
    }
    let mut unlisted = watches.len();
    let mut events = select_all(watches);
    let mut states = BTreeMap::new();
    while let Some((plane, kind, event)) = events.next().await {
        let (object, state) = match event {
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let state = state(&object);
                (object, state)
            }
            Ok(Event::Delete(object)) => (object, "is gone".to_owned()),
            Ok(Event::InitDone) if unlisted > 0 => {
                unlisted -= 1;
                if unlisted == 0 {
                    print("all objects have been listed")?;
                }
                continue;
            }
            // The watcher lists again after an error.
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        let name = object.metadata.name.unwrap_or_default();
        let line = if state.is_empty() {
            format!("{plane:<5} {kind} {name}")
        } else {
            format!("{plane:<5} {kind} {name}: {state}")
        };
        if states.insert((plane, kind, name), state.clone()) != Some(state) {
            print(&line)?;
        }
    }
    Ok(())
}

/// The kinds to watch in a namespace of a plane.
async fn kinds(plane: &str, client: &Client) -> anyhow::Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery = discovery.with_context(on(plane, "discover the kinds"))?;
    let is_watched = |kind: &ApiResource| {
        let is_builtin = !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
        !is_builtin || (kind.group.is_empty() && CORE.contains(&kind.kind.as_str()))
    };
    Ok(discovery
        .groups()
        .flat_map(ApiGroup::recommended_resources)
        .filter(|(kind, capabilities)| {
            is_watched(kind)
                && capabilities.scope == kube::discovery::Scope::Namespaced
                && capabilities.supports_operation(verbs::WATCH)
        })
        .map(|(kind, _)| kind)
        .collect())
}

/// The state of an object in a few words; empty if it has none.
fn state(object: &DynamicObject) -> String {
    let (spec, status) = (&object.data["spec"], &object.data["status"]);
    let mut words = Vec::new();
    let conditions = status["conditions"].as_array();
    let find = |kind: &str| conditions?.iter().find(|condition| condition["type"] == kind);
    // `Available` of an Instance says little beside `Ready`.
    let shown = [find("Ready").or_else(|| find("Available")), find("QuotaGranted")];
    words.extend(shown.into_iter().flatten().map(|found| {
        let [kind, status, reason] =
            ["type", "status", "reason"].map(|field| found[field].as_str().unwrap_or("?"));
        match status {
            "True" => format!("{kind}=True"),
            _ => format!("{kind}={status} ({reason})"),
        }
    }));
    if let (Some(ready), Some(desired)) = (
        status["readyReplicas"].as_u64(),
        status["desiredReplicas"].as_u64(),
    ) {
        words.push(format!("{ready} of {desired} ready"));
    }
    let gates = spec["controller"]["schedulingGates"]
        .as_array()
        .into_iter()
        .flatten();
    words.extend(gates.filter_map(|gate| Some(format!("waits for {}", gate["name"].as_str()?))));
    if object.metadata.deletion_timestamp.is_some() {
        words.push("being deleted".to_owned());
    }
    words.join(", ")
}

/// Prints a line with the time.
fn print(line: &str) -> anyhow::Result<()> {
    let now = jiff::Timestamp::now().strftime("%H:%M:%S%.3f");
    writeln!(std::io::stdout(), "{now} {line}").with_context(cannot("write to", Path::new("standard output")))
}

#[cfg(test)]
mod tests {
    use super::state;
    use serde_json::json;

    #[test]
    fn the_state_has_conditions_with_their_reasons_counts_and_gates() {
        let of = |object| state(&serde_json::from_value(object).unwrap());
        let ready = json!({"type": "Ready", "status": "False", "reason": "ImageUnavailable"});
        let quota = json!({"type": "QuotaGranted", "status": "True", "reason": "QuotaAvailable"});
        let running = json!({"type": "Running", "status": "True", "reason": "Running"});
        let gates = json!([{"name": "Network"}, {"name": "Quota"}]);
        assert_eq!(
            of(json!({
                "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"controller": {"schedulingGates": gates}},
                "status": {"conditions": [quota, running, ready]},
            })),
            "Ready=False (ImageUnavailable), QuotaGranted=True, waits for Network, waits for Quota, being deleted"
        );
        let counts = json!({"readyReplicas": 1, "desiredReplicas": 2});
        assert_eq!(of(json!({"metadata": {}, "status": counts})), "1 of 2 ready");
        assert_eq!(of(json!({"metadata": {}})), "");
    }
}
