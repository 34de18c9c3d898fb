//! Objects that real Karmada needs on its hub: read from a release's tree, with addresses of this machine.

use super::apply::Objects;
use crate::error::cannot;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The webhook's address in the files of a release.
const WEBHOOK_ADDRESS: &str = "https://karmada-webhook.karmada-system.svc:443";
const CA_PLACEHOLDER: &str = "{{caBundle}}";

/// A release's tree: `charts/karmada/_crds` and `artifacts/deploy` below `dir`.
pub(super) struct Manifests {
    pub(super) dir: PathBuf,
}

/// The part of a kustomization that Karmada's CRDs use.
#[derive(Deserialize)]
struct Kustomization {
    resources: Vec<String>,
    #[serde(default)]
    patches: Vec<Patch>,
}

#[derive(Deserialize)]
struct Patch {
    path: String,
}

impl Manifests {
    /// The CRDs, with the conversion webhook at `webhook_port`.
    pub(super) fn crds(
        &self,
        ca_base64: &str,
        webhook_port: u16,
        objects: &mut Objects,
    ) -> anyhow::Result<()> {
        let dir = self.dir.join("charts/karmada/_crds");
        let path = dir.join("kustomization.yaml");
        let kustomization: Kustomization = parse(&path, &read(&path)?)?;
        let mut conversions = Vec::new();
        for Patch { path } in &kustomization.patches {
            let path = dir.join(path);
            let mut crd: Value = parse(&path, &read(&path)?.replace(CA_PLACEHOLDER, ca_base64))?;
            let mut conversion = crd["spec"]["conversion"].take();
            conversion["webhook"]["clientConfig"]["url"] =
                format!("https://127.0.0.1:{webhook_port}/convert").into();
            conversions.push((crd["metadata"]["name"].take(), conversion));
        }
        for resource in &kustomization.resources {
            let path = dir.join(resource);
            let mut crd: Value = parse(&path, &read(&path)?)?;
            if let Some((_, conversion)) = conversions
                .iter()
                .find(|(name, _)| *name == crd["metadata"]["name"])
            {
                crd["spec"]["conversion"] = conversion.clone();
            }
            objects.add(resource, crd)?;
        }
        Ok(())
    }

    /// The webhook configurations, pointed at `webhook_port`.
    pub(super) fn webhooks(&self, ca_base64: &str, webhook_port: u16) -> anyhow::Result<Objects> {
        let path = self.dir.join("artifacts/deploy/webhook-configuration.yaml");
        let text = read(&path)?
            .replace(CA_PLACEHOLDER, ca_base64)
            .replace(WEBHOOK_ADDRESS, &format!("https://127.0.0.1:{webhook_port}"));
        if !text.contains(&format!("127.0.0.1:{webhook_port}/")) {
            let path = path.display();
            bail!("{path} does not name {WEBHOOK_ADDRESS}; use an August 2026 release");
        }
        let mut objects = Objects::default();
        objects.add_yaml(&path.display().to_string(), &text)?;
        Ok(objects)
    }
}

/// Adds the objects by which the hub serves `cluster.karmada.io` from the aggregated API server at `port`.
pub(super) fn aggregated_api(ca_base64: &str, port: u16, objects: &mut Objects) -> anyhow::Result<()> {
    let (name, namespace) = ("karmada-aggregated-apiserver", "karmada-system");
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1alpha1.cluster.karmada.io"},
            "spec": {
                "caBundle": ca_base64,
                "group": "cluster.karmada.io",
                "version": "v1alpha1",
                "groupPriorityMinimum": 2000,
                "versionPriority": 10,
                "service": {"name": name, "namespace": namespace, "port": port},
            },
        }),
    ] {
        objects.add(name, object)?;
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(cannot("read (is KARMADA_MANIFESTS_DIR right?)", path))
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> anyhow::Result<T> {
    fedgate_api::yaml::read(text).with_context(|| format!("{} is not as expected", path.display()))
}
