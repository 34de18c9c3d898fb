//! The bare client: kube's own, sending the requests that the gateway sends, for projects of its own.

use super::{
    acts::text,
    kinds,
    objects::{announcement, bare_copy},
    planes::{DEPLOYMENTS, NAMESPACE, Planes},
};
use anyhow::{Context, Result};
use fedgate_simulator::Plane;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::Value;
use std::collections::BTreeMap;

const COMPUTE: &str = "compute.datumapis.com";
/// Objects in one page of a list: kube's own watcher reads as many.
const PAGE: u32 = 500;

/// A client of one plane.
pub(crate) fn client(planes: &Planes, plane: &str) -> Result<Client> {
    let mut config = kube::Config::new(planes.address.url(plane).parse()?);
    config.root_cert = Some(vec![planes.address.der.clone()]);
    config.auth_info.token = Some("bare".to_owned().into());
    config.default_retry = false;
    config.disable_compression = true;
    Client::try_from(config).context("make a client")
}

/// A hub and projects that the gateway does not know, and the clients.
pub(crate) struct Bare {
    pub(crate) projects: Vec<Plane>,
    hub_client: Api<DynamicObject>,
    clients: Vec<Api<DynamicObject>>,
}

impl Bare {
    /// So many projects, with connections that are open.
    pub(crate) async fn up(planes: &Planes, count: usize) -> Result<Self> {
        let resource = kinds::resource(COMPUTE, DEPLOYMENTS);
        planes.other_hub("bare-hub")?;
        let names: Vec<String> = (0..count).map(|n| format!("bare-{n}")).collect();
        let projects = names
            .iter()
            .map(|name| planes.project(name))
            .collect::<Result<_>>()?;
        let api = |plane: &str| -> Result<Api<DynamicObject>> {
            Ok(Api::namespaced_with(client(planes, plane)?, NAMESPACE, &resource))
        };
        let bare = Self {
            hub_client: api("bare-hub")?,
            clients: names.iter().map(|name| api(name)).collect::<Result<_>>()?,
            projects,
        };
        for api in bare.clients.iter().chain([&bare.hub_client]) {
            api.list(&ListParams::default().limit(1)).await?;
        }
        Ok(bare)
    }

    /// What the gateway sends for a deployment of the project: `PATCH` there, `POST` on the hub.
    pub(crate) async fn carry(&self, project: usize, source: &Value) -> Result<()> {
        let patch = announcement(text(source, "uid"), text(source, "resourceVersion"), NAMESPACE);
        let params = PatchParams::default();
        self.clients[project]
            .patch(text(source, "name"), &params, &Patch::Merge(&patch))
            .await?;
        let mut copy = bare_copy(source);
        copy["apiVersion"] = source["apiVersion"].clone();
        copy["kind"] = source["kind"].clone();
        let copy: DynamicObject = serde_json::from_value(copy)?;
        self.hub_client.create(&PostParams::default(), &copy).await?;
        Ok(())
    }

    /// Carries many deployments, so many of them at a time.
    pub(crate) async fn carry_all(&self, sources: Vec<(usize, Value)>, at_once: usize) -> Result<()> {
        stream::iter(sources.into_iter().map(Ok))
            .try_for_each_concurrent(at_once, async |(project, source)| {
                self.carry(project, &source).await
            })
            .await
    }
}

/// What is read at a start: a kind of a plane, with its labels.
pub(crate) type Target = (String, ApiResource, Option<String>);

/// Lists every target whole and opens its watch, all at once. Answers how many objects there were.
pub(crate) async fn read_all(planes: &Planes, targets: &[Target]) -> Result<usize> {
    let mut clients = BTreeMap::new();
    for (plane, _, _) in targets {
        if !clients.contains_key(plane) {
            clients.insert(plane, client(planes, plane)?);
        }
    }
    let read = targets.iter().map(|(plane, resource, labels)| {
        let client = clients[plane].clone();
        async move {
            let api: Api<DynamicObject> = Api::all_with(client, resource);
            let mut params = ListParams::default().limit(PAGE);
            params.label_selector.clone_from(labels);
            let mut count = 0;
            let version = loop {
                let page = api.list(&params).await?;
                count += page.items.len();
                params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
                if params.continue_token.is_none() {
                    break page.metadata.resource_version.unwrap_or_default();
                }
            };
            let mut watch = WatchParams::default();
            watch.label_selector.clone_from(labels);
            let events = api.watch(&watch, &version).await?;
            Ok::<_, anyhow::Error>((count, events.boxed()))
        }
    });
    // The watches stay open until all are.
    let open = futures::future::try_join_all(read).await?;
    Ok(open.iter().map(|(count, _)| count).sum())
}
