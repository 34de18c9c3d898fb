//! Roles of the gateway for its kinds, on project planes, on the hub and at members (contract: federation.md §1.1, §6 rule 7).
//! Each granted verb is in use. The roles that no kind changes are in `src/yaml`.

use crate::{GATEWAY, KindManifests, Manifest, ManifestError, NAMESPACE, sources};
use fedgate_kinds::{FederatedKind, FinishedWhen, WriteBack};
use serde_json::{Value, json};

const WATCH: &[&str] = &["list", "watch"];
const READ: &[&str] = &["get", "list", "watch"];
const KEEP: &[&str] = &["get", "list", "watch", "patch"];
/// Full control. It has `get`, because the executor reads an object after an API server has refused its apply.
const OWN: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// All role files.
pub(super) fn files(kinds: &[KindManifests]) -> Result<Vec<Manifest>, ManifestError> {
    let mut project = sources::manifest("project/role-of-gateway.yaml")?;
    let mut hub = sources::manifest("hub/role-of-gateway.yaml")?;
    let mut at_members = Vec::new();
    for kind in kinds {
        project.objects.extend(bound(kind, &in_project(kind)));
        hub.objects.extend(bound(kind, &on_hub(kind)));
        if kind.federated.as_ref().is_some_and(asks_member) {
            at_members.extend(bound(kind, &[own_rule(kind, &["get", "watch"])]));
        }
    }
    let mut files = vec![project, hub];
    for path in [
        "hub/operations-viewer.yaml",
        "hub/admin-auth/reviewer.yaml",
        "hub/role-of-cells.yaml",
        "project/cell-quota.yaml",
        "cell/cell-role.yaml",
        "cell/provider-role.yaml",
    ] {
        files.push(sources::manifest(path)?);
    }
    if !at_members.is_empty() {
        files.push(Manifest::generated("member/gateway-role.yaml", at_members));
    }
    Ok(files)
}

/// Permissions of the gateway in every project for a kind.
fn in_project(kind: &KindManifests) -> Vec<Value> {
    let Some(federated) = &kind.federated else {
        return vec![own_rule(kind, OWN)];
    };
    let status = |plural: &str| format!("{plural}/status");
    let mut rules = vec![
        own_rule(kind, KEEP),
        rule(
            &kind.resource.group,
            &[&status(&kind.resource.plural)],
            &["patch"],
        ),
    ];
    rules.extend(of_companions(kind, READ));
    if let Some(WriteBack { resource, .. }) = &federated.write_back {
        rules.push(rule(&resource.group, &[&resource.plural], OWN));
        rules.push(rule(&resource.group, &[&status(&resource.plural)], &["patch"]));
    }
    rules
}

/// Permissions of the gateway on the hub for a kind: full control of copies except their status; write-backs and the platform's
/// objects read-only.
fn on_hub(kind: &KindManifests) -> Vec<Value> {
    let Some(federated) = &kind.federated else {
        return vec![own_rule(kind, WATCH)];
    };
    let mut rules = vec![own_rule(kind, OWN)];
    rules.extend(of_companions(kind, OWN));
    if let Some(WriteBack { resource, .. }) = &federated.write_back {
        rules.push(rule(&resource.group, &[&resource.plural], READ));
    }
    if federated.is_exactly_one() {
        rules.push(rule("work.karmada.io", &["works"], WATCH));
    }
    if asks_member(federated) {
        rules.push(rule("cluster.karmada.io", &["clusters/proxy"], &["get"]));
    }
    rules
}

/// True if the gateway asks the member whether a deleted object is gone there.
fn asks_member(kind: &FederatedKind) -> bool {
    kind.deletion.finished_when == FinishedWhen::MemberAbsent
}

fn own_rule(kind: &KindManifests, verbs: &[&str]) -> Value {
    rule(&kind.resource.group, &[&kind.resource.plural], verbs)
}

fn of_companions(kind: &KindManifests, verbs: &[&str]) -> impl Iterator<Item = Value> {
    let companions = kind.companions().into_iter();
    companions.map(move |(group, plural)| rule(group, &[plural], verbs))
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// A cluster role of a kind, and its binding to the gateway, which is authenticated by certificate or by token.
fn bound(kind: &KindManifests, rules: &[Value]) -> [Value; 2] {
    let api_group = "rbac.authorization.k8s.io";
    let api_version = "rbac.authorization.k8s.io/v1";
    let name = format!("{GATEWAY}-{}", kind.name());
    [
        json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({
            "apiVersion": api_version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": name},
            "subjects": [
                {"apiGroup": api_group, "kind": "User", "name": GATEWAY},
                {"kind": "ServiceAccount", "name": GATEWAY, "namespace": NAMESPACE},
            ],
        }),
    ]
}
