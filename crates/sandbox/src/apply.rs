//! Manifests, applied by the administrator before anything else runs.

use super::SandboxError;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use kube_runtime::wait::{await_condition, conditions};
use std::{path::Path, time::Duration};

const ESTABLISHED_WITHIN: Duration = Duration::from_mins(1);
/// Enough to keep one API server busy.
const PARALLEL: usize = 8;
/// Kinds that others need: applied first, in this order.
const FIRST: [&str; 2] = ["Namespace", "CustomResourceDefinition"];

/// Objects of one plane, in the order in which they can be applied.
#[derive(Default)]
pub(super) struct Objects(Vec<DynamicObject>);

impl Objects {
    /// Reads a YAML stream; `origin` names it in errors. Empty documents are skipped.
    pub(super) fn add_yaml(&mut self, origin: &str, yaml: &str) -> Result<(), SandboxError> {
        let documents = fedgate_api::yaml::documents(yaml).map_err(|e| SandboxError::Manifest {
            plane: origin.to_owned(),
            reason: format!("no YAML: {e}"),
        })?;
        documents
            .into_iter()
            .try_for_each(|document| self.add(origin, document))
    }

    /// Takes one object.
    pub(super) fn add(&mut self, origin: &str, object: serde_json::Value) -> Result<(), SandboxError> {
        let refuse = |reason: String| SandboxError::Manifest {
            plane: origin.to_owned(),
            reason,
        };
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|e| refuse(format!("no Kubernetes object: {e}")))?;
        if object.types.is_none() || object.metadata.name.is_none() {
            return Err(refuse(format!(
                "an object lacks apiVersion, kind or metadata.name: {}",
                object.name_any()
            )));
        }
        self.0.push(object);
        Ok(())
    }

    /// Applies everything: namespaces, CRDs, then the rest once the CRDs are established.
    pub(super) async fn apply(&self, plane: &str, client: &Client, logs: &Path) -> Result<(), SandboxError> {
        let kind = |o: &DynamicObject| o.types.as_ref().map(|t| t.kind.clone()).unwrap_or_default();
        let mut steps: Vec<Vec<&DynamicObject>> = vec![Vec::new(); FIRST.len() + 1];
        for object in &self.0 {
            let step = FIRST
                .iter()
                .position(|first| kind(object) == *first)
                .unwrap_or(FIRST.len());
            steps[step].push(object);
        }
        for objects in steps {
            stream::iter(objects.iter().map(|object| apply_one(plane, client, object)))
                .buffer_unordered(PARALLEL)
                .try_collect::<Vec<()>>()
                .await?;
            let crds = objects
                .iter()
                .filter(|o| kind(o) == FIRST[1])
                .map(|o| o.name_any());
            stream::iter(crds.map(|name| established(plane, client, name, logs)))
                .buffer_unordered(PARALLEL)
                .try_collect::<Vec<()>>()
                .await?;
        }
        Ok(())
    }
}

async fn apply_one(plane: &str, client: &Client, object: &DynamicObject) -> Result<(), SandboxError> {
    let Some(types) = &object.types else { return Ok(()) };
    let name = object.name_any();
    let action = format!("apply {} {name}", types.kind);
    let gvk = GroupVersionKind::try_from(types).map_err(|e| SandboxError::Manifest {
        plane: plane.to_owned(),
        reason: format!("{} {name}: apiVersion {:?}: {e}", types.kind, types.api_version),
    })?;
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply("fedgate-sandbox").force();
    api.patch(&name, &params, &Patch::Apply(object))
        .await
        .map_err(SandboxError::api(plane, action))?;
    Ok(())
}

/// Waits until a CRD is served.
pub(super) async fn established(
    plane: &str,
    client: &Client,
    name: String,
    logs: &Path,
) -> Result<(), SandboxError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let wait = await_condition(api, &name, conditions::is_crd_established());
    match tokio::time::timeout(ESTABLISHED_WITHIN, wait).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(SandboxError::Timeout {
            plane: plane.to_owned(),
            what: format!("the watch for CRD {name} failed ({error})"),
            seconds: 0,
            logs: logs.to_owned(),
        }),
        Err(_) => Err(SandboxError::Timeout {
            plane: plane.to_owned(),
            what: format!("CRD {name} is not established"),
            seconds: ESTABLISHED_WITHIN.as_secs(),
            logs: logs.to_owned(),
        }),
    }
}
