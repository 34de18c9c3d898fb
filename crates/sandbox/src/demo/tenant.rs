//! What the tenant does in the project.

use super::{kinds::Kind, kinds::NAMESPACE, table};
use crate::{Sandbox, SandboxError, User, apply::Objects};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The tenant's project.
pub(super) const PROJECT: &str = "alpha";
/// The tenant's namespace: one of its own, so that its end can be shown too.
pub(super) const NAMESPACE_NAME: &str = "shop";

/// The tenant, with every right in the project.
pub(super) struct Tenant {
    client: Client,
    logs: PathBuf,
}

impl Tenant {
    pub(super) fn new(sandbox: &Sandbox) -> Result<Self, SandboxError> {
        Ok(Self {
            client: sandbox.client(PROJECT, User::Admin)?,
            logs: sandbox.logs(),
        })
    }

    /// Makes the namespace; answers the name of the namespace that belongs to it on the hub and at cells.
    pub(super) async fn make_namespace(&self) -> Result<String, SandboxError> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE_NAME}});
        let namespace = serde_json::from_value(namespace)
            .map_err(|e| SandboxError::Demo(format!("the namespace is no object: {e}")))?;
        let made = NAMESPACE
            .api(self.client.clone(), "")
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(SandboxError::api(
                PROJECT,
                format!("create Namespace {NAMESPACE_NAME}"),
            ))?;
        Ok(format!("ns-{}", made.metadata.uid.unwrap_or_default()))
    }

    /// Applies an example to the namespace.
    pub(super) async fn apply(&self, yaml: &str) -> Result<(), SandboxError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|e| SandboxError::Demo(format!("the example is no YAML: {e}")))?;
        let mut objects = Objects::default();
        for mut document in documents.into_iter().filter(|document| !document.is_null()) {
            document["metadata"]["namespace"] = json!(NAMESPACE_NAME);
            objects.add("example", document)?;
        }
        objects.apply(PROJECT, &self.client, &self.logs).await
    }

    /// A merge patch, as `kubectl patch --type=merge` sends it.
    pub(super) async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> Result<(), SandboxError> {
        self.patch(kind, name, &Patch::Merge(patch)).await
    }

    /// Sets one value that is there, as `kubectl patch --type=json` does.
    pub(super) async fn replace(
        &self,
        kind: &Kind,
        name: &str,
        pointer: &str,
        value: &str,
    ) -> Result<(), SandboxError> {
        let patch = json!([{"op": "replace", "path": pointer, "value": value}]);
        let patch = serde_json::from_value(patch)
            .map_err(|e| SandboxError::Demo(format!("no patch of {pointer}: {e}")))?;
        self.patch(kind, name, &Patch::Json::<()>(patch)).await
    }

    async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        kind: &Kind,
        name: &str,
        patch: &Patch<P>,
    ) -> Result<(), SandboxError> {
        kind.api(self.client.clone(), NAMESPACE_NAME)
            .patch(name, &PatchParams::default(), patch)
            .await
            .map(|_| ())
            .map_err(SandboxError::api(PROJECT, format!("patch {} {name}", kind.kind)))
    }

    pub(super) async fn remove(&self, kind: &Kind, name: &str) -> Result<(), SandboxError> {
        kind.api(self.client.clone(), NAMESPACE_NAME)
            .delete(name, &DeleteParams::background())
            .await
            .map(|_| ())
            .map_err(SandboxError::api(PROJECT, format!("delete {} {name}", kind.kind)))
    }

    /// What `kubectl get` shows, with the command.
    pub(super) async fn table(&self, kind: &Kind) -> Result<String, SandboxError> {
        table::get(&self.client, PROJECT, kind, NAMESPACE_NAME).await
    }
}
