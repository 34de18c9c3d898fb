//! Manifests, applied by the administrator before anything else runs.

use super::SandboxError;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use kube_runtime::wait::await_condition;
use std::{path::Path, time::Duration};

const TRUE_WITHIN: Duration = Duration::from_mins(2);
/// Enough to keep one API server busy.
const PARALLEL: usize = 8;
/// Kinds that others need: applied first, in this order.
const FIRST: [&str; 2] = ["Namespace", DEFINITION];
const DEFINITION: &str = "CustomResourceDefinition";

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
        let step_of = |object: &DynamicObject| {
            let kind = object.types.as_ref().map(|types| types.kind.as_str());
            FIRST.iter().position(|first| kind == Some(first))
        };
        for step in [Some(0), Some(1), None] {
            let objects = self.0.iter().filter(|object| step_of(object) == step);
            stream::iter(objects.map(|object| apply_one(plane, client, object, logs)))
                .buffer_unordered(PARALLEL)
                .try_collect::<Vec<()>>()
                .await?;
        }
        Ok(())
    }
}

async fn apply_one(
    plane: &str,
    client: &Client,
    object: &DynamicObject,
    logs: &Path,
) -> Result<(), SandboxError> {
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
    if types.kind == DEFINITION {
        await_true(plane, client, &resource, &name, "Established", logs).await?;
    }
    Ok(())
}

/// Waits until a condition of an object is True, e.g. `Established` of a CRD that is served.
pub(super) async fn await_true(
    plane: &str,
    client: &Client,
    kind: &ApiResource,
    name: &str,
    condition: &str,
    logs: &Path,
) -> Result<(), SandboxError> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let is_true = |object: Option<&DynamicObject>| {
        let conditions = object.and_then(|object| object.data["status"]["conditions"].as_array());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|found| found["type"] == condition && found["status"] == "True")
    };
    let why = match tokio::time::timeout(TRUE_WITHIN, await_condition(api, name, is_true)).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => format!("the watch failed: {error}"),
        Err(_) => format!("{} s have passed", TRUE_WITHIN.as_secs()),
    };
    Err(SandboxError::Timeout {
        plane: plane.to_owned(),
        what: format!("{} {name} is not {condition}: {why}", kind.kind),
        logs: logs.to_owned(),
    })
}
