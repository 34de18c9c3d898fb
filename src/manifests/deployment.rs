//! The gateway as Pods: namespace, account, two replicas under the restricted profile, and what they may talk to.

use super::{GATEWAY, Manifest, NAMESPACE, Plane};
use serde_json::{Value, json};

const ADMIN_PORT: u16 = 8080;
/// The user that distroless images call `nonroot`.
const NONROOT: u32 = 65532;

/// The files for the cluster that runs the gateway.
pub(super) fn files() -> Vec<Manifest> {
    vec![Manifest {
        path: "deploy/gateway.yaml".to_owned(),
        planes: &[Plane::Host],
        objects: vec![
            namespace(),
            service_account(),
            network_policy(),
            disruption_budget(),
            deployment(),
        ],
    }]
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": GATEWAY})
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted",
        }},
    })
}

fn service_account() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
        "automountServiceAccountToken": false,
    })
}

/// Out: name resolution and API servers. In: probes and metrics.
fn network_policy() -> Value {
    let port = |protocol: &str, port: u16| json!({"protocol": protocol, "port": port});
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": labels()},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [port("TCP", ADMIN_PORT)]}],
            "egress": [
                {"ports": [port("UDP", 53), port("TCP", 53)]},
                {"ports": [port("TCP", 443), port("TCP", 5443), port("TCP", 6443)]},
            ],
        },
    })
}

fn disruption_budget() -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels()}},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": GATEWAY, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels()},
            "template": {"metadata": {"labels": labels()}, "spec": pod()},
        },
    })
}

fn pod() -> Value {
    json!({
        "serviceAccountName": GATEWAY,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": NONROOT,
            "runAsGroup": NONROOT,
            "fsGroup": NONROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container()],
        // The administrator makes them: key `kubeconfig`, user fedgate-gateway on the hub; key `token`, any long word.
        "volumes": [
            {"name": "hub", "secret": {"secretName": "fedgate-hub", "defaultMode": 0o440}},
            {"name": "admin", "secret": {"secretName": "fedgate-admin", "defaultMode": 0o440}},
        ],
    })
}

fn container() -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "admin"}});
    json!({
        "name": "gateway",
        "image": concat!("fedgate:", env!("CARGO_PKG_VERSION")),
        "args": [
            "gateway",
            "--hub-kubeconfig=/etc/fedgate/hub/kubeconfig",
            "--project-mode=secrets",
            format!("--project-secrets-namespace={NAMESPACE}"),
            format!("--admin-address=0.0.0.0:{ADMIN_PORT}"),
            "--admin-token-file=/etc/fedgate/admin/token",
            "--log-format=json",
        ],
        "ports": [{"name": "admin", "containerPort": ADMIN_PORT}],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "hub", "mountPath": "/etc/fedgate/hub", "readOnly": true},
            {"name": "admin", "mountPath": "/etc/fedgate/admin", "readOnly": true},
        ],
    })
}
