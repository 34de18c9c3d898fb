//! What the tenant does in the project.

use super::{kinds::Kind, kinds::NAMESPACE, table, typed};
use crate::{Progress, Sandbox, SandboxError, User, apply::Objects};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::process::Command;

/// The tenant's project.
pub(super) const PROJECT: &str = "alpha";
/// The tenant's namespace: one of its own, so that its end can be shown too.
pub(super) const NAMESPACE_NAME: &str = "shop";

/// The tenant, with every right in the project.
pub(super) struct Tenant {
    client: Client,
    logs: PathBuf,
    kubeconfig: PathBuf,
    /// `kubectl-compute`, which cargo builds and installs beside the sandbox's own executable.
    compute: PathBuf,
}

impl Tenant {
    pub(super) fn new(sandbox: &Sandbox) -> Result<Self, SandboxError> {
        Ok(Self {
            client: sandbox.client(PROJECT, User::Admin)?,
            logs: sandbox.logs(),
            kubeconfig: sandbox.merged_kubeconfig(),
            compute: sandbox.launcher.holder.with_file_name("kubectl-compute"),
        })
    }

    /// Types a line of `kubectl compute` and prints it with its answer. The command must end with this code.
    pub(super) async fn compute(&self, line: &str, code: i32, out: &Progress) -> Result<(), SandboxError> {
        let mut command = Command::new(&self.compute);
        command
            .args(line.split_whitespace())
            .args(["--context", PROJECT, "--namespace", NAMESPACE_NAME])
            .env("KUBECONFIG", &self.kubeconfig);
        typed::answer(&mut command, &format!("kubectl compute {line}"), code, out).await
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
        let documents = fedgate_api::yaml::documents(yaml)
            .map_err(|e| SandboxError::Demo(format!("the example is no YAML: {e}")))?;
        let mut objects = Objects::default();
        for mut document in documents {
            document["metadata"]["namespace"] = json!(NAMESPACE_NAME);
            objects.add("example", document)?;
        }
        objects.apply(PROJECT, &self.client, &self.logs).await
    }

    /// A merge patch, as `kubectl patch --type=merge` sends it.
    pub(super) async fn merge(&self, kind: &Kind, name: &str, patch: Value) -> Result<(), SandboxError> {
        kind.api(self.client.clone(), NAMESPACE_NAME)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
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
