//! A report for failed tests: the objects of all planes, events, and the ends of the logs.

use super::{Sandbox, User, plane::Plane, process::tail};
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    discovery::{ApiGroup, ApiResource, Discovery, verbs},
};
use serde_json::Value;
use std::{fmt::Write, time::Duration};

const PLANE_WITHIN: Duration = Duration::from_secs(20);
/// One YAML document longer than this is cut; bytes.
const LONGEST: usize = 6_000;
/// Groups of Kubernetes with objects that are made here; it fills the others by itself, and these kinds.
const TELLING_GROUPS: [&str; 2] = ["certificates.k8s.io", "networking.k8s.io"];
const DULL_KINDS: [&str; 4] = ["ServiceAccount", "Service", "Endpoints", "ServiceCIDR"];
const DULL_NAMESPACES: [&str; 5] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "karmada-system",
    "karmada-cluster",
];
const DULL_NAMES: [&str; 2] = ["kube-root-ca.crt", "default"];

impl Sandbox {
    /// Objects of all planes as YAML (Secrets without their data), their events, and the last lines of every log.
    ///
    /// It never fails: what cannot be read is named in its place.
    pub async fn dump(&self) -> String {
        let mut out = String::new();
        for plane in &self.planes {
            let _ = writeln!(out, "\n######## plane {} ({})", plane.name, plane.role);
            match tokio::time::timeout(PLANE_WITHIN, self.dump_plane(plane)).await {
                Ok(Ok(text)) => out.push_str(&text),
                Ok(Err(error)) => {
                    let _ = writeln!(out, "(unreadable: {error})");
                }
                Err(_) => {
                    let _ = writeln!(out, "(no answer in {} s)", PLANE_WITHIN.as_secs());
                }
            }
        }
        let mut logs: Vec<_> = std::fs::read_dir(self.logs())
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        logs.sort();
        for log in logs
            .iter()
            .filter(|log| log.extension().is_some_and(|extension| extension == "log"))
        {
            let _ = writeln!(out, "\n######## end of {}\n{}", log.display(), tail(log));
        }
        out
    }

    async fn dump_plane(&self, plane: &Plane) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let client = self.users.client(plane, User::Admin)?;
        let discovery = Discovery::new(client.clone()).run_aggregated().await?;
        let mut kinds: Vec<ApiResource> = discovery
            .groups()
            .filter(|group| !group.name().ends_with("k8s.io") || TELLING_GROUPS.contains(&group.name()))
            .flat_map(ApiGroup::recommended_resources)
            .filter(|(resource, capabilities)| {
                capabilities.supports_operation(verbs::LIST) && !DULL_KINDS.contains(&resource.kind.as_str())
            })
            .map(|(resource, _)| resource)
            .collect();
        kinds.sort_by(|a, b| {
            (a.kind == "Event", &a.group, &a.kind).cmp(&(b.kind == "Event", &b.group, &b.kind))
        });
        let texts: Vec<String> = stream::iter(kinds.iter().map(|kind| dump_kind(&client, kind)))
            .buffered(8)
            .collect()
            .await;
        Ok(texts.concat())
    }
}

async fn dump_kind(client: &Client, kind: &ApiResource) -> String {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let objects = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return format!("--- {} {}: (unreadable: {error})\n", kind.api_version, kind.kind),
    };
    let mut out = String::new();
    for object in objects {
        let name = object.metadata.name.clone().unwrap_or_default();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let home = if kind.kind == "Namespace" {
            &name
        } else {
            &namespace
        };
        if DULL_NAMESPACES.contains(&home.as_str()) || DULL_NAMES.contains(&name.as_str()) {
            continue;
        }
        if kind.kind == "Event" {
            let _ = writeln!(out, "event {}", event(&object));
        } else {
            let _ = writeln!(
                out,
                "--- {} {} {namespace}/{name}\n{}",
                kind.api_version,
                kind.kind,
                body(object, kind.kind == "Secret")
            );
        }
    }
    out
}

fn event(event: &DynamicObject) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (data, about) = (&event.data, &event.data["involvedObject"]);
    format!(
        "{} {} {} {}/{}: {}: {}",
        text(&data["lastTimestamp"]),
        text(&data["type"]),
        text(&about["kind"]),
        text(&about["namespace"]),
        text(&about["name"]),
        text(&data["reason"]),
        text(&data["message"]),
    )
}

fn body(mut object: DynamicObject, secret: bool) -> String {
    object.metadata.managed_fields = None;
    if secret {
        hide_data(&mut object);
    }
    let mut text = serde_saphyr::to_string(&object).unwrap_or_else(|e| format!("(no YAML: {e})"));
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str("\n… (cut)");
    }
    text
}

fn hide_data(object: &mut DynamicObject) {
    if let Some(Value::Object(data)) = object.data.get_mut("data") {
        for value in data.values_mut() {
            *value = format!("({} characters)", value.as_str().map_or(0, str::len)).into();
        }
    }
}
