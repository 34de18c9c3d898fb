//! The purge of a project: its namespaced objects, then its namespaces, by force.

use super::route::HIDDEN;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    core::{ApiResource, DynamicObject},
    discovery::{ApiGroup, Discovery, Scope, verbs},
};

/// Requests at a time: Milo's number.
const PARALLEL: usize = 16;
/// The Service of a kube-apiserver, which makes it again, as its endpoints.
const KUBERNETES: &str = "kubernetes";
/// The namespace that no API server deletes.
const DEFAULT: &str = "default";

/// Deletes once more what can be deleted; whether the project is empty. Cluster-scoped objects stay. Finalizers of objects
/// hold nothing, since only the list of namespaces counts; if it `drains`, nothing is forced, and all objects have to go.
pub(super) async fn purge(client: &Client, drains: bool) -> kube::Result<bool> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let before = ours(&namespaces).await?;
    let kinds = kinds(client).await?;
    let mut collections: Vec<Api<DynamicObject>> = Vec::new();
    for namespace in &before {
        let all = |kind| Api::namespaced_with(client.clone(), &namespace.name_any(), kind);
        collections.extend(kinds.iter().map(all));
    }
    stream::iter(collections.clone())
        .map(empty)
        .buffer_unordered(PARALLEL)
        .collect::<Vec<()>>()
        .await;
    for namespace in before {
        let name = namespace.name_any();
        if name != DEFAULT {
            absent(namespaces.delete(&name, &DeleteParams::background()).await)?;
        }
        if !drains {
            force(&namespaces, &name).await?;
        }
    }
    let left = ours(&namespaces).await?;
    if left.iter().any(|left| left.name_any() != DEFAULT) {
        return Ok(false);
    }
    for all in collections.iter().filter(|_| drains) {
        if holds(all).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the list has objects that a kube-apiserver does not make itself.
async fn holds(all: &Api<DynamicObject>) -> kube::Result<bool> {
    let left = match all.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
        answer => answer?.items,
    };
    Ok(left.iter().any(|object| object.name_any() != KUBERNETES))
}

/// Deletes all objects of a kind in a namespace.
async fn empty(all: Api<DynamicObject>) {
    let (background, every) = (DeleteParams::background(), ListParams::default());
    if let Err(error) = all.delete_collection(&background, &every).await {
        tracing::debug!(path = all.resource_url(), %error, "is deleted in the next round");
    }
}

/// The namespaces of a project.
async fn ours(namespaces: &Api<Namespace>) -> kube::Result<Vec<Namespace>> {
    let mut all = namespaces.list(&ListParams::default()).await?.items;
    all.retain(|namespace| !HIDDEN.contains(&namespace.name_any().as_str()));
    Ok(all)
}

/// The namespaced kinds that can be listed and deleted together.
async fn kinds(client: &Client) -> kube::Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let all = discovery.groups().flat_map(ApiGroup::recommended_resources);
    Ok(all
        .filter(|(_, can)| {
            can.scope == Scope::Namespaced
                && can.supports_operation(verbs::LIST)
                && can.supports_operation(verbs::DELETE_COLLECTION)
        })
        .map(|(kind, _)| kind)
        .collect())
}

/// Empties the namespace's own finalizers.
async fn force(namespaces: &Api<Namespace>, name: &str) -> kube::Result<()> {
    let Some(mut namespace) = namespaces.get_opt(name).await? else {
        return Ok(());
    };
    namespace.spec.get_or_insert_default().finalizers = Some(Vec::new());
    let params = PostParams::default();
    absent(
        namespaces
            .replace_subresource("finalize", name, &params, &namespace)
            .await,
    )
}

/// An object that is gone, or has changed meanwhile, is the next round's affair.
fn absent<T>(answer: kube::Result<T>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        answer => answer.map(drop),
    }
}
