//! Manifests of the roles' Pods: namespace, service account, two replicas under the restricted profile, network policy.

use super::{ADMIN_PORT, ADMIN_SECRET, ADMIN_TOKEN, CELL, GATEWAY, Manifest, NAMESPACE, Plane, rbac};
use serde_json::{Value, json};

const ADMIN_PORT_NUMBER: u16 = 8080;
/// The UID of user `nonroot` in distroless images.
const NONROOT: u32 = 65532;

/// A role that runs as Pods.
struct Role {
    /// Name of all its objects.
    name: &'static str,
    /// Name of its container, and its subcommand.
    command: &'static str,
    /// Its flags, in addition to those of every role.
    flags: Vec<String>,
    /// True if it authenticates to the cluster that runs it with its own service account.
    account: bool,
    /// Its memory limit.
    memory: &'static str,
}

/// The manifests for the clusters that run the roles.
pub(super) fn files() -> Vec<Manifest> {
    let gateway = Role {
        name: GATEWAY,
        command: "gateway",
        flags: vec![
            "--project-mode=secrets".to_owned(),
            format!("--project-secrets-namespace={NAMESPACE}"),
        ],
        account: false,
        memory: "512Mi",
    };
    let cell = Role {
        name: CELL,
        command: "cell",
        flags: vec![
            // Name of the cell's Karmada Cluster, from a ConfigMap that the administrator creates.
            "--name=$(FEDGATE_CELL_NAME)".to_owned(),
            format!("--namespace={NAMESPACE}"),
        ],
        account: true,
        memory: "256Mi",
    };
    [("deploy/gateway.yaml", gateway), ("deploy/cell.yaml", cell)]
        .into_iter()
        .map(|(path, role)| Manifest {
            path: path.to_owned(),
            planes: &[Plane::Host],
            objects: vec![
                namespace(),
                service_account(&role),
                rbac::operator(),
                network_policy(&role),
                disruption_budget(&role),
                deployment(&role),
            ],
        })
        .collect()
}

fn labels(role: &Role) -> Value {
    json!({"app.kubernetes.io/name": role.name})
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

fn service_account(role: &Role) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": role.name, "namespace": NAMESPACE},
        "automountServiceAccountToken": false,
    })
}

/// Egress: DNS and API servers. Ingress: probes and metrics.
fn network_policy(role: &Role) -> Value {
    let port = |protocol: &str, port: u16| json!({"protocol": protocol, "port": port});
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": role.name, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": labels(role)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [port("TCP", ADMIN_PORT_NUMBER)]}],
            "egress": [
                {"ports": [port("UDP", 53), port("TCP", 53)]},
                {"ports": [port("TCP", 443), port("TCP", 5443), port("TCP", 6443)]},
            ],
        },
    })
}

fn disruption_budget(role: &Role) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": role.name, "namespace": NAMESPACE},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels(role)}},
    })
}

fn deployment(role: &Role) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": role.name, "namespace": NAMESPACE, "labels": labels(role)},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels(role)},
            "template": {"metadata": {"labels": labels(role)}, "spec": pod(role)},
        },
    })
}

fn pod(role: &Role) -> Value {
    json!({
        "serviceAccountName": role.name,
        "automountServiceAccountToken": role.account,
        "enableServiceLinks": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": NONROOT,
            "runAsGroup": NONROOT,
            "fsGroup": NONROOT,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container(role)],
        // The administrator creates both Secrets: key `kubeconfig` for the role's user on the hub; key `token`, any
        // long string.
        "volumes": [
            {"name": "hub", "secret": {"secretName": "fedgate-hub", "defaultMode": 0o440}},
            {"name": "admin", "secret": {"secretName": ADMIN_SECRET, "defaultMode": 0o440}},
        ],
    })
}

fn container(role: &Role) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": ADMIN_PORT}});
    let mut args = vec![
        role.command.to_owned(),
        "--hub-kubeconfig=/etc/fedgate/hub/kubeconfig".to_owned(),
    ];
    args.extend(role.flags.iter().cloned());
    args.extend([
        format!("--admin-address=0.0.0.0:{ADMIN_PORT_NUMBER}"),
        format!("--admin-token-file=/etc/fedgate/admin/{ADMIN_TOKEN}"),
        "--log-format=json".to_owned(),
    ]);
    let mut container = json!({
        "name": role.command,
        "image": concat!("fedgate:", env!("CARGO_PKG_VERSION")),
        "args": args,
        "ports": [{"name": ADMIN_PORT, "containerPort": ADMIN_PORT_NUMBER}],
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"memory": role.memory},
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
    });
    if role.command == "cell" {
        let source = json!({"configMapKeyRef": {"name": CELL, "key": "name"}});
        container["env"] = json!([{"name": "FEDGATE_CELL_NAME", "valueFrom": source}]);
    }
    container
}
