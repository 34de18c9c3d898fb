//! Bases and overlays of Kustomize over the files of `manifests/`. Their files are named `Kustomization`, without an
//! ending: `kubectl apply -f FOLDER` would take a `kustomization.yaml` for an object.

use crate::{Manifest, ManifestError, sources};
use serde_json::json;

/// The folders that are bases.
const BASES: [&str; 11] = [
    "crds",
    "hub",
    "project",
    "cell",
    "deploy/gateway",
    "deploy/cell",
    "deploy/returns",
    "provisioner/hub",
    "provisioner/hub-pull",
    "provisioner/home",
    "monitoring",
];

/// Files that are in no base: both monitors would scrape a gateway twice; rules for Prometheus itself and the dashboard are no
/// objects.
const LEFT_OUT: [&str; 3] = [
    "monitoring/servicemonitor.yaml",
    "monitoring/alerts.yaml",
    "monitoring/dashboard.json",
];

const OVERLAYS: [&str; 6] = ["hub", "project", "host", "cell", "cell/program", "single-plane"];

/// The bases of these manifests, and the overlays of planes.
pub(super) fn files(manifests: &[Manifest]) -> Result<Vec<Manifest>, ManifestError> {
    let mut files: Vec<Manifest> = BASES.iter().map(|folder| base(folder, manifests)).collect();
    for overlay in OVERLAYS {
        files.push(sources::manifest(&format!("overlays/{overlay}/Kustomization"))?);
    }
    Ok(files)
}

/// A base keeps the order of its files, because Kustomize's own order has roles before the policies that limit them.
fn base(folder: &str, manifests: &[Manifest]) -> Manifest {
    let name = |manifest: &Manifest| -> Option<String> {
        let name = manifest.path.strip_prefix(folder)?.strip_prefix('/')?;
        let is_in_base = !name.contains('/') && !LEFT_OUT.contains(&&*manifest.path);
        is_in_base.then(|| name.to_owned())
    };
    let names: Vec<String> = manifests.iter().filter_map(name).collect();
    let object = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": names,
        "sortOptions": {"order": "fifo"},
    });
    Manifest::generated(&format!("{folder}/Kustomization"), vec![object])
}
