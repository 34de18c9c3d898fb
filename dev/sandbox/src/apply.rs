//! Manifests, applied by the administrator before anything else runs.

use crate::error::on;
use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use kube_runtime::wait::await_condition;
use std::time::Duration;

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
    pub(super) fn add_yaml(&mut self, origin: &str, yaml: &str) -> anyhow::Result<()> {
        let documents = fedgate_api::yaml::documents(yaml);
        let documents = documents.with_context(|| format!("a manifest for {origin} is no YAML"))?;
        documents
            .into_iter()
            .try_for_each(|document| self.add(origin, document))
    }

    /// Takes one object.
    pub(super) fn add(&mut self, origin: &str, object: serde_json::Value) -> anyhow::Result<()> {
        let object: DynamicObject = serde_json::from_value(object)
            .with_context(|| format!("a manifest for {origin} is no Kubernetes object"))?;
        if object.types.is_none() || object.metadata.name.is_none() {
            let name = object.name_any();
            bail!("an object for {origin} lacks apiVersion, kind or metadata.name: {name}");
        }
        self.0.push(object);
        Ok(())
    }

    /// Applies everything: namespaces, CRDs, then the rest once the CRDs are established.
    pub(super) async fn apply(&self, plane: &str, client: &Client) -> anyhow::Result<()> {
        let step_of = |object: &DynamicObject| {
            let kind = object.types.as_ref().map(|types| types.kind.as_str());
            FIRST.iter().position(|first| kind == Some(first))
        };
        for step in [Some(0), Some(1), None] {
            let objects = self.0.iter().filter(|object| step_of(object) == step);
            stream::iter(objects.map(|object| apply_one(plane, client, object)))
                .buffer_unordered(PARALLEL)
                .try_collect::<Vec<()>>()
                .await?;
        }
        Ok(())
    }
}

async fn apply_one(plane: &str, client: &Client, object: &DynamicObject) -> anyhow::Result<()> {
    let Some(types) = &object.types else { return Ok(()) };
    let name = object.name_any();
    let action = format!("apply {} {name}", types.kind);
    let gvk = GroupVersionKind::try_from(types).with_context(on(plane, &action))?;
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply("fedgate-sandbox").force();
    api.patch(&name, &params, &Patch::Apply(object))
        .await
        .with_context(on(plane, action))?;
    if types.kind == DEFINITION {
        await_true(plane, client, &resource, &name, "Established").await?;
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
) -> anyhow::Result<()> {
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
    bail!(
        "plane {plane}: {} {name} is not {condition}: {why}; read its logs",
        kind.kind
    )
}
