//! Everything that is on the planes, to prove that nothing is left behind.

use crate::{Sandbox, SandboxError, User};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};
use std::collections::BTreeSet;

/// Kinds that Kubernetes and the gateway write whatever a tenant does: they are no trace of anything.
const OWN_LIFE: [&str; 4] = ["Event", "Lease", "ComponentStatus", "EndpointSlice"];
const PARALLEL: usize = 8;

/// Every object of every kind on every plane, as `plane kind namespace/name`.
pub(super) async fn take(sandbox: &Sandbox) -> Result<BTreeSet<String>, SandboxError> {
    let mut all = BTreeSet::new();
    for plane in &sandbox.planes {
        let client = sandbox.users.client(plane, User::Admin)?;
        let discovery = Discovery::new(client.clone())
            .run_aggregated()
            .await
            .map_err(SandboxError::api(&plane.name, "discover the kinds"))?;
        let kinds: Vec<ApiResource> = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::recommended_resources)
            .filter(|(resource, capabilities)| {
                capabilities.supports_operation(verbs::LIST) && !OWN_LIFE.contains(&resource.kind.as_str())
            })
            .map(|(resource, _)| resource)
            .collect();
        let names: Vec<Vec<String>> = stream::iter(kinds.iter().map(|kind| list(&plane.name, &client, kind)))
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        all.extend(names.into_iter().flatten());
    }
    Ok(all)
}

async fn list(plane: &str, client: &Client, kind: &ApiResource) -> Result<Vec<String>, SandboxError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let list = api
        .list(&ListParams::default())
        .await
        .map_err(SandboxError::api(plane, format!("list {}", kind.plural)))?;
    let line = |object: DynamicObject| {
        let name = object.metadata.name.unwrap_or_default();
        match object.metadata.namespace {
            Some(namespace) => format!("{plane} {} {namespace}/{name}", kind.kind),
            None => format!("{plane} {} {name}", kind.kind),
        }
    };
    Ok(list.items.into_iter().map(line).collect())
}
