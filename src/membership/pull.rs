//! The objects of a cell whose karmada-agent reads from the hub (contract: provisioning.md §5.4). Pure.

use super::{
    kubeconfig::base64,
    registration::{self, AccountRights, Cell},
};
use fedgate_manifests::KindManifests;
use serde_json::{Value, json};

/// Namespace of karmada-agent at the member, and of its lease on the hub.
pub const NAMESPACE: &str = "karmada-system";
/// Secret of the agent with its kubeconfig of the hub, and the key in it: the agent looks for both.
pub const KUBECONFIG: &str = "karmada-kubeconfig";
/// Key in the same Secret: a private key whose certificate the hub has not signed yet.
pub const PENDING_KEY: &str = "pending-key";
/// Name of the agent's objects at the member.
const AGENT: &str = "karmada-agent";
const ACCOUNT: &str = "karmada-agent-sa";
/// Folder of the agent's kubeconfig in its container.
const FOLDER: &str = "/etc/karmada";
/// The UID of user `nonroot` in distroless images; the agent needs no other, and its image sets none.
const NONROOT: u32 = 65532;
const RBAC: &str = "rbac.authorization.k8s.io";

/// The user of a cell's agent on the hub.
pub fn user(cell: &str) -> String {
    format!("system:karmada:agent:{cell}")
}

/// The namespace on the hub with the Works of a cell.
pub fn execution_namespace(cell: &str) -> String {
    format!("karmada-es-{cell}")
}

/// The agent's lease on the hub, by which one of its Pods leads.
pub fn lease(cell: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
           "metadata": {"name": format!("{AGENT}-{cell}"), "namespace": NAMESPACE}})
}

/// A Namespace of Karmada's own, which it propagates to no member.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace",
           "metadata": {"name": name, "labels": {"karmada.io/system": "true"}}})
}

/// The objects on the hub, in the order in which they are applied: the rights that `karmadactl register` gives, but for
/// Secrets, since the agent reports none, and with the approval of its own next certificate.
pub fn hub_objects(cell: &str) -> Vec<Value> {
    let (role, within) = (format!("system:karmada:{cell}:agent"), execution_namespace(cell));
    let works = format!("{role}-work");
    let subjects = json!([{"apiGroup": RBAC, "kind": "User", "name": user(cell)}]);
    let object = |kind: &str, metadata: Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata});
    let bound = |mut binding: Value, kind: &str| {
        let name = binding["metadata"]["name"].clone();
        binding["roleRef"] = json!({"apiGroup": RBAC, "kind": kind, "name": name});
        binding["subjects"] = subjects.clone();
        binding
    };
    let ruled = |mut role: Value, rules: Value| {
        role["rules"] = rules;
        role
    };
    let (cluster, namespaced) = (json!({"name": role}), json!({"name": works, "namespace": within}));
    vec![
        namespace(&within),
        ruled(object("ClusterRole", cluster.clone()), hub_rules(cell)),
        bound(object("ClusterRoleBinding", cluster), "ClusterRole"),
        ruled(
            object("Role", namespaced.clone()),
            json!([
                {"apiGroups": ["work.karmada.io"], "resources": ["works"],
                 "verbs": ["get", "list", "watch", "create", "update", "delete"]},
                {"apiGroups": ["work.karmada.io"], "resources": ["works/status"], "verbs": ["patch", "update"]},
            ]),
        ),
        bound(object("RoleBinding", namespaced), "Role"),
    ]
}

fn hub_rules(cell: &str) -> Value {
    let clusters = "cluster.karmada.io";
    let certificates = "certificates.k8s.io";
    json!([
        {"apiGroups": [clusters], "resources": ["clusters"], "resourceNames": [cell], "verbs": ["get", "delete"]},
        {"apiGroups": [clusters], "resources": ["clusters"], "verbs": ["create", "list", "watch"]},
        {"apiGroups": [clusters], "resources": ["clusters/status"], "resourceNames": [cell], "verbs": ["update"]},
        {"apiGroups": ["config.karmada.io"],
         "resources": ["resourceinterpreterwebhookconfigurations", "resourceinterpretercustomizations"],
         "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
        {"apiGroups": [certificates], "resources": ["certificatesigningrequests"], "verbs": ["get", "create"]},
        // Karmada approves a request for the requesting user's own name with it, and no other.
        {"apiGroups": [certificates], "resources": ["certificatesigningrequests/selfclusteragent"], "verbs": ["create"]},
    ])
}

/// The objects at the member but for the Secret and the Deployment, in the order in which they are applied. The agent may
/// make no Namespace `karmada-cluster`, and asks for it.
pub fn member_objects(cell: &Cell<'_>, kinds: &[KindManifests]) -> Vec<Value> {
    let system = json!({"karmada.io/system": "true"});
    let mut objects = vec![
        namespace(registration::NAMESPACE),
        namespace(NAMESPACE),
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
               "metadata": {"name": ACCOUNT, "namespace": NAMESPACE, "labels": system}}),
    ];
    // Before the role: the account may write nothing that the policy would not have seen.
    if cell.rights == AccountRights::Narrow {
        objects.extend(limits(kinds));
    }
    objects.extend([
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": AGENT, "labels": system}, "rules": registration::rules(cell.rights, kinds)}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": AGENT, "labels": system},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": AGENT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]}),
    ]);
    objects
}

/// The policy that limits the agent at the member; it writes its own renewed certificate there, too.
pub fn limits(kinds: &[KindManifests]) -> Vec<Value> {
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    registration::limits(&user, kinds, Some((NAMESPACE, KUBECONFIG)))
}

/// The agent's Secret with one value.
pub fn secret(key: &str, value: &[u8]) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": KUBECONFIG, "namespace": NAMESPACE, "labels": {"karmada.io/system": "true"}},
        "data": {key: base64(value)}})
}

/// The Deployment, by its name alone.
pub fn deployment_identity() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": AGENT, "namespace": NAMESPACE}})
}

/// The agent's Pod: a second one would only wait for the lease.
pub fn deployment(cell: &Cell<'_>, image: &str) -> Value {
    let labels = json!({"app": AGENT});
    let mut deployment = deployment_identity();
    deployment["metadata"]["labels"] = labels.clone();
    deployment["spec"] = json!({
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "serviceAccountName": ACCOUNT,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": NONROOT, "runAsGroup": NONROOT, "fsGroup": NONROOT,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container(cell, image)],
            "volumes": [{"name": "kubeconfig", "secret": {
                "secretName": KUBECONFIG, "defaultMode": 0o440,
                "items": [{"key": KUBECONFIG, "path": KUBECONFIG}],
            }}],
        }},
    });
    deployment
}

fn container(cell: &Cell<'_>, image: &str) -> Value {
    json!({
        "name": AGENT,
        "image": image,
        "command": [format!("/bin/{AGENT}")],
        "args": arguments(cell),
        "ports": [{"name": "metrics", "containerPort": 8080}, {"name": "health", "containerPort": 10357}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "health"}},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "kubeconfig", "mountPath": FOLDER, "readOnly": true}],
    })
}

/// With these the agent computes exactly the Cluster that `join` has made, which it may not change.
fn arguments(cell: &Cell<'_>) -> Vec<String> {
    vec![
        format!("--karmada-kubeconfig={FOLDER}/{KUBECONFIG}"),
        format!("--cluster-name={}", cell.name),
        format!("--cluster-api-endpoint={}", cell.endpoint),
        "--report-secrets=None".to_owned(),
        "--controllers=*,certRotation".to_owned(),
    ]
}
