//! The stand-in's CRDs: those of Karmada's kinds that a gateway or the stand-in touches.
//!
//! They are not Karmada's own CRDs. Names, defaults and the limits that a policy meets (at least one selector, the
//! enumerations) are the same; everything else is accepted as it comes. `cluster.karmada.io` is a CRD here and an
//! aggregated API in Karmada.

use serde_json::{Value, json};

/// A kind of Karmada's.
struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    short: &'static str,
    namespaced: bool,
    status: bool,
    spec: fn() -> Value,
}

const KINDS: [Kind; 7] = [
    Kind {
        group: "policy.karmada.io",
        version: "v1alpha1",
        name: "PropagationPolicy",
        plural: "propagationpolicies",
        short: "pp",
        namespaced: true,
        status: false,
        spec: policy,
    },
    Kind {
        group: "policy.karmada.io",
        version: "v1alpha1",
        name: "ClusterPropagationPolicy",
        plural: "clusterpropagationpolicies",
        short: "cpp",
        namespaced: false,
        status: false,
        spec: policy,
    },
    Kind {
        group: "work.karmada.io",
        version: "v1alpha2",
        name: "ResourceBinding",
        plural: "resourcebindings",
        short: "rb",
        namespaced: true,
        status: true,
        spec: binding,
    },
    Kind {
        group: "work.karmada.io",
        version: "v1alpha2",
        name: "ClusterResourceBinding",
        plural: "clusterresourcebindings",
        short: "crb",
        namespaced: false,
        status: true,
        spec: binding,
    },
    Kind {
        group: "work.karmada.io",
        version: "v1alpha1",
        name: "Work",
        plural: "works",
        short: "wk",
        namespaced: true,
        status: true,
        spec: anything,
    },
    Kind {
        group: "config.karmada.io",
        version: "v1alpha1",
        name: "ResourceInterpreterCustomization",
        plural: "resourceinterpretercustomizations",
        short: "ric",
        namespaced: false,
        status: false,
        spec: interpreter,
    },
    Kind {
        group: "cluster.karmada.io",
        version: "v1alpha1",
        name: "Cluster",
        plural: "clusters",
        short: "",
        namespaced: false,
        status: true,
        spec: anything,
    },
];

/// All of them.
pub(super) fn crds() -> Vec<Value> {
    KINDS.iter().map(crd).collect()
}

/// Columns of `kubectl get` that Karmada has too.
fn columns(kind: &str) -> Value {
    let condition = |name: &str, of: &str| {
        let path = format!(".status.conditions[?(@.type==\"{of}\")].status");
        json!({"name": name, "type": "string", "jsonPath": path})
    };
    let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
    match kind {
        "Cluster" => json!([condition("Ready", "Ready"), age]),
        "ResourceBinding" | "ClusterResourceBinding" => json!([
            condition("Scheduled", "Scheduled"),
            condition("FullyApplied", "FullyApplied"),
            age
        ]),
        _ => json!([]),
    }
}

fn crd(kind: &Kind) -> Value {
    let Kind { group, plural, .. } = kind;
    let short: Vec<&str> = Some(kind.short)
        .filter(|short| !short.is_empty())
        .into_iter()
        .collect();
    let mut properties = json!({
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": (kind.spec)(),
    });
    let mut subresources = json!({});
    if kind.status {
        properties["status"] = anything();
        subresources["status"] = json!({});
    }
    let columns = columns(kind.name);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Groups under k8s.io and kubernetes.io alone need an approval; the annotation says what this is.
            "annotations": {"fedgate.dev/stand-in": "this is fedgate's stand-in, not Karmada's CRD"},
        },
        "spec": {
            "group": group,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "kind": kind.name,
                "listKind": format!("{}List", kind.name),
                "plural": plural,
                "singular": kind.name.to_lowercase(),
                "shortNames": short,
                "categories": ["karmada-io"],
            },
            "versions": [{
                "name": kind.version,
                "served": true,
                "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": properties,
                }},
            }],
        },
    })
}

fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn selector() -> Value {
    json!({
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "namespace": {"type": "string"},
            "name": {"type": "string"},
            "labelSelector": anything(),
        },
    })
}

fn policy() -> Value {
    let mut schema = anything();
    schema["required"] = json!(["resourceSelectors"]);
    schema["properties"] = json!({
        "resourceSelectors": {"type": "array", "minItems": 1, "items": selector()},
        "propagateDeps": {"type": "boolean"},
        "placement": anything(),
        "priority": {"type": "integer", "format": "int32", "default": 0},
        "preemption": {"type": "string", "enum": ["Always", "Never"], "default": "Never"},
        "schedulerName": {"type": "string", "default": "default-scheduler"},
        "conflictResolution": {"type": "string", "enum": ["Abort", "Overwrite"], "default": "Abort"},
    });
    schema
}

fn binding() -> Value {
    let mut schema = anything();
    schema["required"] = json!(["resource"]);
    schema["properties"] = json!({
        "resource": {
            "type": "object",
            "required": ["apiVersion", "kind", "name"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "namespace": {"type": "string"},
                "name": {"type": "string"},
                "uid": {"type": "string"},
                "resourceVersion": {"type": "string"},
            },
        },
        "conflictResolution": {"type": "string", "enum": ["Abort", "Overwrite"], "default": "Abort"},
    });
    schema
}

fn interpreter() -> Value {
    let script = json!({
        "type": "object",
        "required": ["luaScript"],
        "properties": {"luaScript": {"type": "string"}},
    });
    let operations = [
        "retention",
        "replicaResource",
        "replicaRevision",
        "statusReflection",
        "statusAggregation",
        "healthInterpretation",
        "dependencyInterpretation",
        "componentResource",
    ];
    let customizations: serde_json::Map<String, Value> = operations
        .iter()
        .map(|operation| ((*operation).to_owned(), script.clone()))
        .collect();
    json!({
        "type": "object",
        "required": ["target", "customizations"],
        "properties": {
            "target": {
                "type": "object",
                "required": ["apiVersion", "kind"],
                "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}},
            },
            "customizations": {"type": "object", "properties": customizations},
        },
    })
}
