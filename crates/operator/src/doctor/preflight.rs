//! Requirements for the gateway's start: the hub is a Karmada with its webhook, and serves our kinds.

use super::{PreflightError, clusters};
use crate::membership::cluster::Cluster;
use fedgate_api::keys::CLUSTER_CLAIM_ID;
use fedgate_engine::plane::{client::PlaneClient, watch};
use fedgate_gateway::index::{Resources, TableId};
use fedgate_kinds::Kinds;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{
    Api,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the policy in the dry run; the policy is never created.
const PROBE: &str = "fedgate-preflight";

/// Checks the requirements for the gateway's start: the hub answers, is a Karmada with its webhook, and serves our
/// kinds. Writes nothing; a policy is created with `dryRun` only if none of the hub's first 20 policies has Karmada's
/// label.
pub async fn preflight(hub: &PlaneClient, kinds: &Kinds) -> Result<(), PreflightError> {
    served(hub, kinds).await?;
    webhook(hub).await
}

/// Checks that all required kinds are served.
pub(super) async fn served(hub: &PlaneClient, kinds: &Kinds) -> Result<(), PreflightError> {
    let resources = Resources::default();
    let clusters = clusters::resource();
    let foreign = [
        &resources[TableId::CitySets],
        &resources[TableId::CityPolicies],
        &resources[TableId::Bindings],
        &resources[TableId::Interpreters],
        &clusters,
    ];
    let ours = kinds.federated.iter().flat_map(|kind| {
        std::iter::once(&kind.resource).chain(kind.write_back.as_ref().map(|w| &w.resource))
    });
    let ours = ours.chain(kinds.platform.iter().map(|kind| &kind.resource));
    if let Some(resource) = missing(hub, foreign).await? {
        return Err(PreflightError::NoKarmada(resource));
    }
    match missing(hub, ours).await? {
        Some(resource) => Err(PreflightError::NoDefinition(resource)),
        None => Ok(()),
    }
}

/// The first of these kinds that is not served, as `<plural>.<group>/<version>`. Each version of a group is asked for once.
pub(super) async fn missing(
    client: &PlaneClient,
    wanted: impl IntoIterator<Item = &ApiResource>,
) -> Result<Option<String>, PreflightError> {
    let mut lists: BTreeMap<String, Vec<APIResource>> = BTreeMap::new();
    for resource in wanted {
        let version = &resource.api_version;
        if !lists.contains_key(version) {
            let served = match client.client().list_api_group_resources(version).await {
                Ok(list) => list.resources,
                Err(error) if watch::is_not_served(&error) => Vec::new(),
                Err(error) => return Err(PreflightError::of(&error, "get", "API resources")),
            };
            lists.insert(version.clone(), served);
        }
        if lists[version].iter().all(|served| served.name != resource.plural) {
            return Ok(Some(format!("{}.{version}", resource.plural)));
        }
    }
    Ok(None)
}

/// Checks that Karmada's webhook has labelled a policy with its id, or does so now.
async fn webhook(hub: &PlaneClient) -> Result<(), PreflightError> {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &Resources::default()[TableId::CitySets]);
    let policies = api.list(&ListParams::default().limit(20)).await;
    let policies = policies.map_err(|error| failed(&error, "list"))?;
    if policies.iter().any(marked) {
        return Ok(());
    }
    webhook_acts(hub).await
}

fn failed(error: &kube::Error, verb: &'static str) -> PreflightError {
    PreflightError::of(error, verb, "clusterpropagationpolicies.policy.karmada.io")
}

fn marked(policy: &DynamicObject) -> bool {
    let labels = policy.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(CLUSTER_CLAIM_ID))
}

/// Checks that Karmada's webhook labels a policy with its id now, by a dry run. A stand-in is not asked for that.
pub(super) async fn webhook_acts(hub: &PlaneClient) -> Result<(), PreflightError> {
    let resource = Resources::default()[TableId::CitySets].clone();
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &resource);
    let probe: DynamicObject =
        serde_json::from_value(probe(&resource)).map_err(|e| PreflightError::Unreachable(e.to_string()))?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let tried = api.create(&dry_run, &probe).await;
    if tried.as_ref().is_err_and(lacks_id) {
        return Err(PreflightError::NoWebhook);
    }
    if marked(&tried.map_err(|error| failed(&error, "create"))?) || is_stand_in(hub).await? {
        return Ok(());
    }
    Err(PreflightError::NoWebhook)
}

/// True if Karmada's other webhook, which validates, misses the id. It looks like a permission that is missing.
fn lacks_id(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains(CLUSTER_CLAIM_ID))
}

fn probe(resource: &ApiResource) -> Value {
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": PROBE},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": PROBE}],
            "placement": {"clusterAffinity": {"clusterNames": []}},
        },
    })
}

/// True if the hub is the sandbox's stand-in for Karmada, which annotates its Clusters, and labels policies later than
/// a webhook would.
pub(super) async fn is_stand_in(hub: &PlaneClient) -> Result<bool, PreflightError> {
    let list = clusters::list(hub).await?;
    Ok(list.iter().any(|cluster| Cluster(cluster).is_stand_in()))
}
