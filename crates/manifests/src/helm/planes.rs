//! Definitions, roles and policies as templates, and the Namespace of all planes.

use super::{Document, KEEP, Template, Templates, any};
use crate::{KindManifests, Manifest, ManifestError, NAMESPACE, deployment::pod_security, rbac};
use serde_json::{Value, json};

/// The label by which Karmada leaves a Namespace alone.
const UNPROPAGATED: &str = "namespace.karmada.io/skip-auto-propagation: \"true\"";

/// Admission policies of projects that match objects in Namespaces.
const CONCERNS_NAMESPACES: [&str; 2] = ["project/cell-claims.yaml", "project/network-use.yaml"];

/// Templates of the planes' definitions, roles and policies.
pub(super) fn templates(kinds: &[KindManifests]) -> Result<Vec<Templates>, ManifestError> {
    let mut all = vec![namespace()];
    for file in crate::all(kinds)? {
        all.extend(of_file(file));
    }
    all.push(viewers());
    Ok(all)
}

/// One Namespace, whatever the planes of the release are: on the hub Karmada leaves it alone, and where Pods run it
/// enforces their profile.
fn namespace() -> Templates {
    let mut template = Template::default();
    let mut metadata = json!({"name": NAMESPACE, "labels": {}});
    let hub = any(&["hub"]);
    let hosts = any(&["host", "cell-host", "returns-host"]);
    let security: Vec<String> = pod_security()
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}: {}", value.as_str().unwrap_or_default()))
        .collect();
    let lines = format!(
        "{{{{- if {hub} }}}}\n{UNPROPAGATED}\n{{{{- end }}}}\n{{{{- if {hosts} }}}}\n{}\n{{{{- end }}}}",
        security.join("\n")
    );
    metadata["labels"] = template.fields(lines).into();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let document = Document {
        condition: any(&["hub", "cell", "host", "cell-host", "returns-host"]),
        annotations: KEEP,
        ..document("namespace", object)
    };
    Templates {
        path: "namespace.yaml".to_owned(),
        documents: vec![document],
        template,
    }
}

fn document(component: &'static str, object: Value) -> Document {
    Document {
        condition: String::new(),
        name: "fedgate",
        component,
        labels: String::new(),
        annotations: "",
        object,
    }
}

/// The templates of a file that a plane needs; the Pods are elsewhere.
fn of_file(file: Manifest) -> Option<Templates> {
    let (component, condition) = match file.path.split('/').next() {
        Some("crds") => (
            "definitions",
            format!("and .Values.crds.install ({})", any(&["hub", "project", "cell"])),
        ),
        // The gateway writes them itself, unless `--manage-interpreters=false`.
        Some("hub") if file.path.starts_with("hub/interpreters/") => (
            "hub",
            format!(
                "and ({}) (eq (get .Values.gateway.flags \"manage-interpreters\" | toString) \"false\")",
                any(&["hub"])
            ),
        ),
        Some("hub") if file.path.starts_with("hub/admin-auth/") => (
            "hub",
            format!("and ({}) (eq .Values.admin.auth \"hub\")", any(&["hub"])),
        ),
        Some("hub") => ("hub", any(&["hub"])),
        // For the server of a platform, which has many projects.
        Some("project") if file.path.starts_with("project/flow-control/") => (
            "project",
            format!("and ({}) (eq .Values.projects.mode \"milo\")", any(&["project"])),
        ),
        // Milo looks for the Namespace of an object at its core, which lacks those of projects.
        Some("project") if CONCERNS_NAMESPACES.contains(&&*file.path) => (
            "project",
            format!("and ({}) (ne .Values.projects.mode \"milo\")", any(&["project"])),
        ),
        Some("project") => ("project", any(&["project"])),
        Some("cell") => ("cell", any(&["cell"])),
        _ => return None,
    };
    let is_common = |object: &Value| object["kind"] == "Namespace" && object["metadata"]["name"] == NAMESPACE;
    let documents = file
        .objects
        .into_iter()
        .filter(|object| !is_common(object))
        .map(|object| {
            let is_kept = ["Namespace", "CustomResourceDefinition"]
                .iter()
                .any(|kind| object["kind"] == *kind);
            Document {
                condition: condition.clone(),
                annotations: if is_kept { KEEP } else { "" },
                ..document(component, object)
            }
        })
        .collect();
    Some(Templates {
        path: file.path,
        documents,
        template: Template::default(),
    })
}

/// Users of the hub that may ask the operations API, if the values name some.
fn viewers() -> Templates {
    let mut template = Template::default();
    let subjects = template.yaml(".Values.viewer.subjects");
    let object = rbac::binding(rbac::VIEWER, &subjects);
    let document = Document {
        condition: format!("and ({}) .Values.viewer.subjects", any(&["hub"])),
        ..document("hub", object)
    };
    Templates {
        path: "hub/viewers.yaml".to_owned(),
        documents: vec![document],
        template,
    }
}
