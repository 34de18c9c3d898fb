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
/// The namespace that no API server deletes.
const DEFAULT: &str = "default";

/// Deletes once more what can be deleted; whether the project is empty. Cluster-scoped objects stay, and finalizers of
/// objects hold nothing: only the list of namespaces counts.
pub(super) async fn purge(client: &Client) -> kube::Result<bool> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let before = ours(&namespaces).await?;
    let kinds = kinds(client).await?;
    let mut collections: Vec<Api<DynamicObject>> = Vec::new();
    for namespace in &before {
        let all = |kind| Api::namespaced_with(client.clone(), &namespace.name_any(), kind);
        collections.extend(kinds.iter().map(all));
    }
    stream::iter(collections)
        .map(empty)
        .buffer_unordered(PARALLEL)
        .collect::<Vec<()>>()
        .await;
    for namespace in before {
        let name = namespace.name_any();
        if name != DEFAULT {
            absent(namespaces.delete(&name, &DeleteParams::background()).await)?;
        }
        force(&namespaces, &name).await?;
    }
    Ok(ours(&namespaces)
        .await?
        .iter()
        .all(|left| left.name_any() == DEFAULT))
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
