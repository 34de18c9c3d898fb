//! Bases and overlays of Kustomize over the files of `manifests/`. Their files are named `Kustomization`, without an
//! ending: `kubectl apply -f FOLDER` would take a `kustomization.yaml` for an object.

use super::{
    CELL, Manifest, NAMESPACE,
    deployment::{CELL_ROLE, default_admin_flags, own_namespace, pod_security},
};
use serde_json::{Value, json};

/// The folders that are bases, with the files of theirs that are left out: those for a choice of the administrator's.
const BASES: [(&str, &[&str]); 8] = [
    ("crds", &[]),
    ("hub", &[]),
    ("project", &[]),
    ("cell", &[]),
    ("deploy/gateway", &[]),
    ("deploy/cell", &[]),
    ("deploy/returns", &[]),
    // Both monitors would scrape a gateway twice; rules for Prometheus itself and the dashboard are no objects.
    (
        "monitoring",
        &["servicemonitor.yaml", "alerts.yaml", "dashboard.json"],
    ),
];

/// The bases of `manifests/`, and the overlays of planes.
pub(super) fn files(manifests: &[Manifest]) -> Vec<Manifest> {
    let base = |(folder, left_out): &(&str, &[&str])| {
        let name = |manifest: &Manifest| -> Option<String> {
            let name = manifest.path.strip_prefix(folder)?.strip_prefix('/')?;
            (!name.contains('/') && !left_out.contains(&name)).then(|| name.to_owned())
        };
        let names: Vec<String> = manifests.iter().filter_map(name).collect();
        in_order(folder, json!({"resources": names}))
    };
    let mut files: Vec<Manifest> = BASES.iter().map(base).collect();
    files.extend(overlays());
    files
}

/// A Kustomization that keeps the order of its resources, because Kustomize's own order has roles before the policies that limit them.
fn in_order(folder: &str, mut fields: Value) -> Manifest {
    fields["sortOptions"] = json!({"order": "fifo"});
    kustomization(folder, &fields)
}

fn kustomization(folder: &str, fields: &Value) -> Manifest {
    let mut object = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"});
    if let (Some(object), Some(fields)) = (object.as_object_mut(), fields.as_object()) {
        object.extend(fields.clone());
    }
    Manifest {
        path: format!("{folder}/Kustomization"),
        planes: &[],
        objects: vec![object],
    }
}

fn overlays() -> Vec<Manifest> {
    let of = |name: &str, resources: &[&str]| {
        in_order(&format!("overlays/{name}"), json!({"resources": resources}))
    };
    vec![
        of("hub", &["../../crds", "../../hub"]),
        of("project", &["../../crds", "../../project"]),
        of("host", &["../../deploy/gateway"]),
        program(),
        cell(),
        single_plane(),
    ]
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// A patch as text, which is how Kustomize takes it.
fn patch(object: &Value) -> Value {
    json!({"patch": object.to_string()})
}

/// The cell's program without the Namespace, which the cell's roles have too.
fn program() -> Manifest {
    let mut gone = namespace();
    gone["$patch"] = json!("delete");
    kustomization(
        "overlays/cell/program",
        &json!({"resources": ["../../../deploy/cell"], "patches": [patch(&gone)]}),
    )
}

/// A cell that runs its program itself.
fn cell() -> Manifest {
    let mut enforcing = namespace();
    enforcing["metadata"]["labels"] = pod_security();
    kustomization(
        "overlays/cell",
        &json!({"resources": ["../../crds", "../../cell", "program"], "patches": [patch(&enforcing)]}),
    )
}

/// A cell without a hub: no kubeconfig of one, and no name on it.
fn single_plane() -> Manifest {
    let mut args = vec![json!(CELL_ROLE.command)];
    args.extend(own_namespace(&CELL_ROLE));
    args.extend(default_admin_flags());
    let gone = |mut named: Value| {
        named["$patch"] = json!("delete");
        named
    };
    let container = json!({
        "name": CELL_ROLE.command,
        "args": args,
        // No variable is left.
        "env": null,
        "volumeMounts": [gone(json!({"mountPath": "/etc/fedgate/hub"}))],
    });
    let alone = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CELL, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {
            "containers": [container],
            "volumes": [gone(json!({"name": "hub"}))],
        }}},
    });
    kustomization(
        "overlays/single-plane",
        &json!({"resources": ["../cell"], "patches": [patch(&alone)]}),
    )
}
