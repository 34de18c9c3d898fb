//! What the tenant does in the project.

use super::{kinds::Kind, kinds::NAMESPACE, table};
use crate::{Progress, Sandbox, SandboxError, User, apply::Objects};
use futures::{StreamExt, stream};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{path::PathBuf, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::Command,
};

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
        out.say(&format!("   $ kubectl compute {line}"));
        let cannot_start = |error: std::io::Error| {
            let program = self.compute.display();
            SandboxError::Demo(format!("cannot start {program}: {error}; build it: make build"))
        };
        let mut child = Command::new(&self.compute)
            .args(line.split_whitespace())
            .args(["--context", PROJECT, "--namespace", NAMESPACE_NAME])
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot_start)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut answer = stream::select(
            stream::iter(stdout).flat_map(|out| lines(out).boxed()),
            stream::iter(stderr).flat_map(|err| lines(err).boxed()),
        );
        while let Some(text) = answer.next().await {
            out.say(&format!("     {text}"));
        }
        let ended = child.wait().await.map_err(cannot_start)?;
        if ended.code() == Some(code) {
            return Ok(());
        }
        Err(SandboxError::Demo(format!(
            "kubectl compute {line}: ended with {ended}, not with exit code {code}"
        )))
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

/// The lines of a stream, up to its end.
fn lines(stream: impl AsyncRead + Unpin + Send) -> impl stream::Stream<Item = String> + Send {
    stream::unfold(BufReader::new(stream).lines(), |mut lines| async {
        let line = lines.next_line().await.ok().flatten()?;
        Some((line, lines))
    })
}
