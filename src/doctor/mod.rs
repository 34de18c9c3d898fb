//! Checks of the planes: requirements for the gateway's start ([`preflight`]), and all other checks by requests
//! ([`check_hub`], `fedgate doctor`).

mod claims;
mod report;
mod rights;

pub use claims::claims;
pub use report::{Finding, Verdict};
pub use rights::rights;

use crate::gateway::index::Resources;
use fedgate_api::keys::{CLUSTER_CLAIM_ID, STAND_IN};
use fedgate_engine::plane::client::{PlaneClient, is_timeout};
use fedgate_kinds::FederatedKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::{
    Api,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Name of the policy in the dry run; the policy is never created.
const PROBE: &str = "fedgate-preflight";

/// Reason why the gateway cannot work with a hub.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// No connection, no answer, or an answer that is not an API server's.
    #[error(
        "hub: the API server cannot be reached: {cause}; check clusters[].cluster.server in --hub-kubeconfig, the network and the server itself"
    )]
    Unreachable {
        /// The cause.
        cause: String,
    },
    /// The credential is rejected.
    #[error(
        "hub: the credential in --hub-kubeconfig is refused ({cause}); issue a new token or client certificate for the gateway's user"
    )]
    Unauthorized {
        /// The server's message.
        cause: String,
    },
    /// Permissions are missing.
    #[error(
        "hub: this user may not {verb} {resource} ({cause}); apply manifests/hub and bind its roles to the user in --hub-kubeconfig"
    )]
    Forbidden {
        /// The verb.
        verb: &'static str,
        /// The resource.
        resource: String,
        /// The server's message.
        cause: String,
    },
    /// A kind of Karmada is not served.
    #[error(
        "hub: {resource} is not served, so this is no Karmada API server or its CRDs are missing; point --hub-kubeconfig at the Karmada API server, or install Karmada's CRDs (karmadactl init)"
    )]
    NoKarmada {
        /// `<plural>.<group>/<version>`.
        resource: String,
    },
    /// A kind of ours is not served.
    #[error("hub: {resource} is not served; apply manifests/crds to the hub")]
    NoDefinition {
        /// `<plural>.<group>/<version>`.
        resource: String,
    },
    /// Karmada's webhook does not label policies with their id.
    #[error(
        "hub: MutatingWebhookConfiguration mutating-config does not act: a ClusterPropagationPolicy gets no label clusterpropagationpolicy.karmada.io/permanent-id, so Karmada would deliver nothing; install karmada-webhook and its configuration"
    )]
    NoWebhook,
    /// The webhook is configured and fails.
    #[error(
        "hub: karmada-webhook does not answer ({cause}); start it and check url and caBundle in MutatingWebhookConfiguration mutating-config"
    )]
    WebhookFails {
        /// The server's message.
        cause: String,
    },
}

impl PreflightError {
    /// True if a retry may succeed: the hub or its webhook is just starting. An API server that has not loaded its
    /// roles yet denies all requests.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::WebhookFails { .. } | Self::Forbidden { .. }
        )
    }

    /// Classifies the error of a request.
    fn of(error: &kube::Error, verb: &'static str, resource: &str) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 401 => Self::Unauthorized {
                cause: status.message.clone(),
            },
            kube::Error::Api(status) if status.message.contains("failed calling webhook") => {
                Self::WebhookFails {
                    cause: status.message.clone(),
                }
            }
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden {
                verb,
                resource: resource.to_owned(),
                cause: status.message.clone(),
            },
            error if is_timeout(error) => Self::Unreachable {
                cause: error.to_string(),
            },
            error => Self::Unreachable {
                cause: root_cause(error),
            },
        }
    }
}

/// The innermost error is the most specific: "connection refused", "unknown issuer".
fn root_cause(error: &kube::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}

/// Checks the requirements for the gateway's start: the hub answers, is a Karmada with its webhook, and serves our
/// kinds. Writes nothing; a policy is created with `dryRun` only if none of the hub's first 20 policies has Karmada's
/// label.
pub async fn preflight(hub: &PlaneClient, kinds: &[FederatedKind]) -> Result<(), PreflightError> {
    served(hub, kinds).await?;
    webhook(hub).await
}

/// Checks that all required kinds are served.
async fn served(hub: &PlaneClient, kinds: &[FederatedKind]) -> Result<(), PreflightError> {
    let resources = Resources::default();
    let clusters = clusters();
    let foreign = [
        &resources.city_sets,
        &resources.city_policies,
        &resources.bindings,
        &resources.interpreters,
        &clusters,
    ];
    let ours = kinds.iter().flat_map(|kind| {
        std::iter::once(&kind.resource).chain(kind.write_back.as_ref().map(|w| &w.resource))
    });
    let mut lists: BTreeMap<String, Option<APIResourceList>> = BTreeMap::new();
    let wanted = foreign
        .into_iter()
        .map(|r| (r, true))
        .chain(ours.map(|r| (r, false)));
    for (resource, karmada) in wanted {
        if !lists.contains_key(&resource.api_version) {
            let list = group(hub, &resource.api_version).await?;
            lists.insert(resource.api_version.clone(), list);
        }
        let list = lists.get(&resource.api_version).and_then(Option::as_ref);
        if !list.is_some_and(|list| list.resources.iter().any(|r| r.name == resource.plural)) {
            let resource = format!("{}.{}", resource.plural, resource.api_version);
            return Err(if karmada {
                PreflightError::NoKarmada { resource }
            } else {
                PreflightError::NoDefinition { resource }
            });
        }
    }
    Ok(())
}

/// The resources of a group and version; `None` if the server does not serve the version.
async fn group(hub: &PlaneClient, version: &str) -> Result<Option<APIResourceList>, PreflightError> {
    match hub.client().list_api_group_resources(version).await {
        Ok(list) => Ok(Some(list)),
        // A server answers 404 in plain text here, which the client distinguishes from an API server's own 404.
        Err(kube::Error::Api(status)) if status.code == 404 || status.message.starts_with("HTTP 404 ") => {
            Ok(None)
        }
        Err(error) => Err(PreflightError::of(&error, "get", "API resources")),
    }
}

fn clusters() -> ApiResource {
    crate::gateway::index::resource("cluster.karmada.io", "v1alpha1", "Cluster", "clusters")
}

/// Checks that Karmada's webhook labels policies with their id.
async fn webhook(hub: &PlaneClient) -> Result<(), PreflightError> {
    let resource = Resources::default().city_sets;
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &resource);
    let failed = |verb| {
        move |error: kube::Error| {
            PreflightError::of(&error, verb, "clusterpropagationpolicies.policy.karmada.io")
        }
    };
    let marked = |policy: &DynamicObject| {
        policy
            .metadata
            .labels
            .as_ref()
            .is_some_and(|l| l.contains_key(CLUSTER_CLAIM_ID))
    };
    let policies = api
        .list(&ListParams::default().limit(20))
        .await
        .map_err(failed("list"))?;
    if policies.iter().any(marked) {
        return Ok(());
    }
    let probe: DynamicObject = serde_json::from_value(probe(&resource))
        .map_err(|e| PreflightError::Unreachable { cause: e.to_string() })?;
    let tried = api
        .create(
            &PostParams {
                dry_run: true,
                ..PostParams::default()
            },
            &probe,
        )
        .await;
    if marked(&tried.map_err(failed("create"))?) || is_stand_in(hub).await? {
        return Ok(());
    }
    Err(PreflightError::NoWebhook)
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
async fn is_stand_in(hub: &PlaneClient) -> Result<bool, PreflightError> {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &clusters());
    let list = api.list(&ListParams::default().limit(20)).await;
    let list = list.map_err(|e| PreflightError::of(&e, "list", "clusters.cluster.karmada.io"))?;
    Ok(list.iter().any(|c| {
        c.metadata
            .annotations
            .as_ref()
            .is_some_and(|a| a.contains_key(STAND_IN))
    }))
}

/// All checks of the hub but permissions, each with its next step.
pub async fn check_hub(hub: &PlaneClient, kinds: &[FederatedKind]) -> Vec<Finding> {
    let mut findings = Vec::new();
    match hub.client().apiserver_version().await {
        Ok(version) => findings.push(Finding::fine(format!(
            "hub: API server answers, {}",
            version.git_version
        ))),
        Err(error) => {
            let error = PreflightError::of(&error, "get", "version");
            return vec![Finding::of_error(&error)];
        }
    }
    match served(hub, kinds).await {
        Ok(()) => findings.push(Finding::fine("hub: Karmada's kinds and ours are served")),
        Err(error) => findings.push(Finding::of_error(&error)),
    }
    match webhook(hub).await {
        Ok(()) if is_stand_in(hub).await.unwrap_or(false) => {
            findings.push(Finding::fine(
                "hub: the sandbox's stand-in for Karmada, which needs no webhook",
            ));
        }
        Ok(()) => findings.push(Finding::fine(
            "hub: Karmada's webhook gives policies their identity",
        )),
        Err(error) => findings.push(Finding::of_error(&error)),
    }
    findings.push(cities(hub, kinds).await);
    findings.push(dependencies(hub).await);
    findings.extend(interpreters(hub, kinds).await);
    findings
}

/// Checks that Clusters have the label that selects cities.
async fn cities(hub: &PlaneClient, kinds: &[FederatedKind]) -> Finding {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &clusters());
    let list = match api.list(&ListParams::default().limit(500)).await {
        Ok(list) => list,
        Err(error) => {
            return Finding::of_error(&PreflightError::of(&error, "list", "clusters.cluster.karmada.io"));
        }
    };
    let labels: Vec<&str> = kinds.iter().map(|k| k.placement.label.as_str()).collect();
    let has = |c: &DynamicObject| {
        c.metadata
            .labels
            .as_ref()
            .is_some_and(|l| labels.iter().any(|w| l.contains_key(*w)))
    };
    let without: Vec<_> = list
        .iter()
        .filter(|c| !has(c))
        .filter_map(|c| c.metadata.name.clone())
        .collect();
    if list.items.is_empty() {
        Finding::open("hub: no Cluster is registered", "join the cells: karmadactl join")
    } else if without.is_empty() {
        Finding::fine(format!(
            "hub: all {} Clusters carry a city label",
            list.items.len()
        ))
    } else {
        let next = format!(
            "label them: kubectl label cluster {} {}=<CODE>",
            without.join(" "),
            labels.join(" or ")
        );
        Finding::open(
            format!(
                "hub: Clusters without a city label get no deployments: {}",
                without.join(", ")
            ),
            next,
        )
    }
}

/// Checks `PropagateDeps`, which is visible only by its effect.
async fn dependencies(hub: &PlaneClient) -> Finding {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &Resources::default().bindings);
    match api.list(&ListParams::default().limit(500)).await {
        Ok(list) => {
            let depended = |b: &DynamicObject| {
                b.metadata
                    .labels
                    .iter()
                    .flat_map(BTreeMap::keys)
                    .any(|k| k.starts_with("resourcebinding.karmada.io/depended-by-"))
            };
            if list.iter().any(depended) {
                Finding::fine("hub: PropagateDeps is on: ConfigMaps and Secrets follow their deployments")
            } else {
                Finding::open(
                    "hub: PropagateDeps cannot be seen: no binding depends on another yet",
                    "make sure that karmada-controller-manager does not run with --feature-gates=PropagateDeps=false",
                )
            }
        }
        Err(error) => Finding::of_error(&PreflightError::of(
            &error,
            "list",
            "resourcebindings.work.karmada.io",
        )),
    }
}

/// Checks that each kind's interpreter exists, is ours, and has no competing one.
async fn interpreters(hub: &PlaneClient, kinds: &[FederatedKind]) -> Vec<Finding> {
    let api: Api<DynamicObject> = Api::all_with(hub.client(), &Resources::default().interpreters);
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list,
        Err(error) => {
            let resource = "resourceinterpretercustomizations.config.karmada.io";
            return vec![Finding::of_error(&PreflightError::of(&error, "list", resource))];
        }
    };
    let mut findings = Vec::new();
    for kind in kinds {
        let wanted = kind.interpreter_object();
        let name = &kind.interpreter.name;
        let object = format!("hub: ResourceInterpreterCustomization {name}");
        let target = |c: &DynamicObject| c.data["spec"]["target"] == wanted["spec"]["target"];
        let duplicates: Vec<_> = list
            .iter()
            .filter(|c| target(c) && c.metadata.name.as_ref() != Some(name))
            .filter_map(|c| c.metadata.name.clone())
            .collect();
        findings.push(match list.iter().find(|c| c.metadata.name.as_ref() == Some(name)) {
            None => Finding::open(
                format!("{object} is missing"),
                "the gateway writes it with --manage-interpreters=true; else apply manifests/hub/interpreters",
            ),
            Some(live) if live.data["spec"] != wanted["spec"] => Finding::bad(
                format!("{object} differs from the kind's folder"),
                "the gateway restores it with --manage-interpreters=true; else apply manifests/hub/interpreters",
            ),
            Some(_) => Finding::fine(format!("{object} is ours")),
        });
        if !duplicates.is_empty() {
            findings.push(Finding::bad(
                format!(
                    "{object} has duplicates for the same kind: {}",
                    duplicates.join(", ")
                ),
                format!(
                    "delete them: kubectl delete resourceinterpretercustomization {}",
                    duplicates.join(" ")
                ),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
