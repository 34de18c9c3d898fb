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
            let text = match tokio::time::timeout(PLANE_WITHIN, self.dump_plane(plane)).await {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => format!("(unreadable: {error:#})"),
                Err(_) => format!("(no answer in {} s)", PLANE_WITHIN.as_secs()),
            };
            let _ = writeln!(
                out,
                "\n######## plane {} ({})\n{text}",
                plane.name,
                plane.role.as_str()
            );
        }
        let entries = std::fs::read_dir(self.logs()).into_iter().flatten().flatten();
        let mut logs: Vec<_> = entries.map(|entry| entry.path()).collect();
        logs.retain(|log| log.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        for log in logs {
            let _ = writeln!(out, "\n######## end of {}\n{}", log.display(), tail(&log));
        }
        out
    }

    async fn dump_plane(&self, plane: &Plane) -> anyhow::Result<String> {
        let client = self.users.client(plane, User::Admin)?;
        let discovery = Discovery::new(client.clone()).run_aggregated().await?;
        let is_telling =
            |group: &&ApiGroup| !group.name().ends_with("k8s.io") || TELLING_GROUPS.contains(&group.name());
        let groups = discovery.groups().filter(is_telling);
        let kinds = groups.flat_map(ApiGroup::recommended_resources);
        let mut kinds: Vec<ApiResource> = kinds
            .filter(|(kind, can)| can.supports_operation(verbs::LIST) && !DULL_KINDS.contains(&&*kind.kind))
            .map(|(kind, _)| kind)
            .collect();
        kinds.sort_by_key(|kind| (kind.kind == "Event", kind.group.clone(), kind.kind.clone()));
        let texts = stream::iter(kinds.iter().map(|kind| dump_kind(&client, kind))).buffered(8);
        Ok(texts.collect::<String>().await)
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
    let (data, about) = (&event.data, &event.data["involvedObject"]);
    let words = [
        &data["lastTimestamp"],
        &data["type"],
        &about["kind"],
        &about["namespace"],
        &about["name"],
        &data["reason"],
        &data["message"],
    ];
    words.map(|word| word.as_str().unwrap_or_default()).join(" ")
}

fn body(mut object: DynamicObject, is_secret: bool) -> String {
    object.metadata.managed_fields = None;
    if is_secret && let Some(data) = object.data.get_mut("data").and_then(Value::as_object_mut) {
        data.values_mut().for_each(|value| *value = "(hidden)".into());
    }
    let mut text = serde_saphyr::to_string(&object).unwrap_or_else(|e| format!("(no YAML: {e})"));
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push_str("\n… (cut)");
    }
    text
}
