//! Roles of the gateway on project planes and on the hub, and of cells on the hub, in projects and on their own planes
//! (contract: federation.md §1.1, §6 rule 7). Each granted verb is in use.

use super::{
    CELL, CELL_ACCOUNTS, CELL_ACCOUNTS_GROUP, CELLS, GATEWAY, KindManifests, Manifest, NAMESPACE, OPERATOR,
    Owner, Plane, QUOTA,
};
use fedgate_api::GROUP;
use serde_json::{Value, json};

/// The `ClusterRole` of users of the hub that may ask the operations API.
pub(crate) const VIEWER: &str = "fedgate-operations-viewer";

const WATCH: &[&str] = &["list", "watch"];
const READ: &[&str] = &["get", "list", "watch"];
const KEEP: &[&str] = &["get", "list", "watch", "patch"];
/// Full control. It has `get`, because the executor reads an object after an API server has refused its apply.
const OWN: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// All role files.
pub(super) fn files(kinds: &[KindManifests]) -> Vec<Manifest> {
    let mut project = project_base();
    project.extend(kinds.iter().flat_map(project_kind));
    let mut hub = hub_base();
    hub.extend(kinds.iter().flat_map(hub_kind));
    let asked: Vec<Value> = kinds
        .iter()
        .filter(|kind| kind.asks_member)
        .flat_map(member_kind)
        .collect();
    let members = (!asked.is_empty()).then(|| Manifest {
        path: "member/gateway-role.yaml".to_owned(),
        planes: &[Plane::Cell],
        objects: asked,
    });
    let files = vec![
        Manifest {
            path: "project/role-of-gateway.yaml".to_owned(),
            planes: &[Plane::Project],
            objects: project,
        },
        Manifest {
            path: "hub/role-of-gateway.yaml".to_owned(),
            planes: &[Plane::Hub],
            objects: hub,
        },
        Manifest {
            path: "hub/operations-viewer.yaml".to_owned(),
            planes: &[Plane::Hub],
            objects: vec![viewer()],
        },
        Manifest {
            path: "hub/admin-auth/reviewer.yaml".to_owned(),
            // Applied only with `--admin-auth=hub`: no plane gets it otherwise.
            planes: &[],
            objects: reviewer(),
        },
        Manifest {
            path: "hub/role-of-cells.yaml".to_owned(),
            planes: &[Plane::Hub],
            objects: cells_on_hub(),
        },
        Manifest {
            path: "project/cell-quota.yaml".to_owned(),
            planes: &[Plane::Project],
            objects: cells_in_projects(),
        },
        Manifest {
            path: "cell/cell-role.yaml".to_owned(),
            planes: &[Plane::Cell],
            objects: cell(),
        },
        Manifest {
            path: "cell/provider-role.yaml".to_owned(),
            planes: &[Plane::Cell],
            objects: provider(),
        },
    ];
    files.into_iter().chain(members).collect()
}

/// Permissions of the gateway at members, where the hub's proxy acts in its name (contract: clusters.md §9).
fn member_kind(kind: &KindManifests) -> Vec<Value> {
    bound(
        &role_name(kind),
        &json!([rule(&kind.group, &[&kind.plural], &["get", "watch"])]),
    )
}

/// Permissions of the gateway in every project, independent of its kinds; those of the Workload controller are here.
fn project_base() -> Vec<Value> {
    bound(
        GATEWAY,
        &json!([
            rule("", &["namespaces"], READ),
            rule("", &["configmaps", "secrets"], READ),
            rule(
                "networking.datumapis.com",
                &["networks", "locations", "locationbindings"],
                WATCH
            ),
            rule("locations.miloapis.com", &["locations"], WATCH),
            rule("services.miloapis.com", &["serviceavailabilities"], WATCH),
            rule(GROUP, &["workloads"], &["get", "list", "watch", "patch"]),
            rule(GROUP, &["workloads/status"], &["patch"]),
            rule(GROUP, &["workloaddeployments"], &["create", "delete"]),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
        ]),
    )
}

/// Permissions of the gateway in every project for a kind.
pub(super) fn project_kind(kind: &KindManifests) -> Vec<Value> {
    if kind.owner == Owner::Platform {
        return bound(
            &role_name(kind),
            &json!([rule(&kind.group, &[&kind.plural], OWN)]),
        );
    }
    let mut rules = vec![
        rule(&kind.group, &[&kind.plural], KEEP),
        rule(&kind.group, &[&status(&kind.plural)], &["patch"]),
    ];
    rules.extend(
        kind.companions
            .iter()
            .map(|(group, plural)| rule(group, &[plural], READ)),
    );
    if let Some((group, plural)) = &kind.write_back {
        rules.push(rule(group, &[plural], OWN));
        rules.push(rule(group, &[&status(plural)], &["patch"]));
    }
    bound(&role_name(kind), &json!(rules))
}

/// Permissions of the gateway on the hub, independent of its kinds.
fn hub_base() -> Vec<Value> {
    let mut objects = vec![unpropagated(NAMESPACE)];
    objects.extend(bound(
        GATEWAY,
        &json!([
            rule("", &["namespaces"], OWN),
            rule("", &["configmaps", "secrets"], OWN),
            rule(
                "policy.karmada.io",
                &["clusterpropagationpolicies", "propagationpolicies"],
                OWN
            ),
            rule(
                "config.karmada.io",
                &["resourceinterpretercustomizations"],
                &["get", "list", "watch", "create", "patch"]
            ),
            rule(
                "work.karmada.io",
                &["resourcebindings"],
                &["list", "watch", "delete"]
            ),
            rule("cluster.karmada.io", &["clusters"], WATCH),
        ]),
    ));
    objects.extend([
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
            "rules": [
                rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "create", "update"]),
            ],
        }),
        role_binding(GATEWAY, &gateway()),
    ]);
    objects
}

/// A Namespace of the hub that stays there: without the label Karmada propagates it to every cell.
fn unpropagated(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"namespace.karmada.io/skip-auto-propagation": "true"}},
    })
}

/// Permissions of the gateway on the hub for a kind: full control of copies except their status; write-backs and the platform's
/// objects read-only.
pub(super) fn hub_kind(kind: &KindManifests) -> Vec<Value> {
    if kind.owner == Owner::Platform {
        return bound(
            &role_name(kind),
            &json!([rule(&kind.group, &[&kind.plural], WATCH)]),
        );
    }
    let mut rules = vec![rule(&kind.group, &[&kind.plural], OWN)];
    rules.extend(
        kind.companions
            .iter()
            .map(|(group, plural)| rule(group, &[plural], OWN)),
    );
    if let Some((group, plural)) = &kind.write_back {
        rules.push(rule(group, &[plural], READ));
    }
    if kind.is_exactly_one {
        rules.push(rule("work.karmada.io", &["works"], &["list", "watch"]));
    }
    if kind.asks_member {
        rules.push(rule("cluster.karmada.io", &["clusters/proxy"], &["get"]));
    }
    bound(&role_name(kind), &json!(rules))
}

/// Permissions of a user of the hub to ask the operations API everything (contract: operations.md §2.7). It is bound to
/// nobody.
fn viewer() -> Value {
    let resources = &[
        "overview", "planes", "projects", "cells", "flows", "stuck", "trace", "journal", "events", "metrics",
    ];
    let rules = json!([rule("operations.fedgate.dev", resources, &["get"])]);
    cluster_role(VIEWER, &rules)
}

/// Permissions of the gateway to have the hub review the tokens of such users.
pub fn reviewer() -> Vec<Value> {
    bound(
        "fedgate-operations-reviewer",
        &json!([
            rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
            rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
        ]),
    )
}

/// Permissions of cells on the hub; `cell-writes.yaml` limits them to certain objects.
fn cells_on_hub() -> Vec<Value> {
    let rules = json!([
        rule("", &["namespaces"], READ),
        rule(GROUP, &["workloaddeployments"], READ),
        rule(GROUP, &["instances"], OWN),
        rule(GROUP, &["instances/status"], &["patch"]),
    ]);
    let accounts =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CELL_ACCOUNTS_GROUP});
    vec![
        unpropagated(CELL_ACCOUNTS),
        cluster_role(CELL, &rules),
        binding(CELL, &json!([all_cells(), accounts])),
    ]
}

/// Permissions of cells in projects, where cells claim quota.
fn cells_in_projects() -> Vec<Value> {
    let name = "fedgate-cell-quota";
    let verbs = &["get", "list", "watch", "create", "delete"];
    let rules = json!([rule("quota.miloapis.com", &["resourceclaims"], verbs)]);
    let askers = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": QUOTA}]);
    vec![cluster_role(name, &rules), binding(name, &askers)]
}

/// Permissions of operators where the Pods run, `secret` having the token: the commands `fedgate status`, `stuck`, `trace` and `journal` find the
/// Pods, forward to them, and read the token. The administrator binds the role; to forward is to reach every port of
/// every Pod of the namespace.
pub(crate) fn operator(secret: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": OPERATOR, "namespace": NAMESPACE},
        "rules": [
            rule("", &["pods"], &["get", "list"]),
            // A WebSocket begins with a GET; newer API servers require `create` beside it.
            rule("", &["pods/portforward"], &["get", "create"]),
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]},
        ],
    })
}

/// Permissions of a cell on its own plane.
fn cell() -> Vec<Value> {
    let networking = "networking.datumapis.com";
    let rules = json!([
        rule("", &["namespaces"], WATCH),
        rule("", &["configmaps", "secrets"], WATCH),
        rule(GROUP, &["workloaddeployments"], WATCH),
        rule(GROUP, &["workloaddeployments/status"], &["patch"]),
        rule(
            GROUP,
            &["instances"],
            &["list", "watch", "create", "patch", "delete"]
        ),
        rule(GROUP, &["instances/status"], &["patch"]),
        rule(
            networking,
            &["servinglocations", "networkcontexts", "subnets"],
            WATCH
        ),
        rule("locations.miloapis.com", &["servinglocations"], WATCH),
        rule(
            networking,
            &["networkbindings"],
            &["list", "watch", "create", "delete"]
        ),
        rule(networking, &["subnetclaims"], &["list", "watch", "create"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ]);
    let own = json!([
        rule(
            "coordination.k8s.io",
            &["leases"],
            &["get", "list", "watch", "create", "update"]
        ),
        rule("", &["configmaps"], &["create", "patch", "delete"]),
    ]);
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        cluster_role(CELL, &rules),
        binding(CELL, &here()),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": CELL, "namespace": NAMESPACE},
            "rules": own,
        }),
        role_binding(CELL, &here()),
    ]
}

/// Additional permissions of the built-in provider; not applied where another provider runs the Instances.
fn provider() -> Vec<Value> {
    let name = "fedgate-cell-provider";
    let rules = json!([
        rule("", &["pods", "services"], OWN),
        rule("networking.k8s.io", &["networkpolicies"], OWN),
        // To set the label with the Pod Security profile that the Pods must meet.
        rule("", &["namespaces"], &["patch"]),
    ]);
    vec![cluster_role(name, &rules), binding(name, &here())]
}

/// Subject: the group of all cells' users that log in with a client certificate.
fn all_cells() -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": CELLS})
}

/// Subjects: the cell on its own plane, authenticated by certificate or by token.
fn here() -> Value {
    json!([all_cells(), {"kind": "ServiceAccount", "name": CELL, "namespace": NAMESPACE}])
}

fn role_name(kind: &KindManifests) -> String {
    format!("{GATEWAY}-{}.{}", kind.plural, kind.group)
        .trim_end_matches('.')
        .to_owned()
}

fn status(plural: &str) -> String {
    format!("{plural}/status")
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// A cluster role that is bound to the gateway.
pub(super) fn bound(name: &str, rules: &Value) -> Vec<Value> {
    vec![cluster_role(name, rules), binding(name, &gateway())]
}

pub(super) fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    })
}

/// A `RoleBinding` of the Role of the same name in the namespace of the Pods.
pub(crate) fn role_binding(name: &str, subjects: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": subjects,
    })
}

/// A `ClusterRoleBinding` of the `ClusterRole` of the same name.
pub(crate) fn binding(name: &str, subjects: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": subjects,
    })
}

/// Subjects: the gateway, authenticated by certificate or by token.
fn gateway() -> Value {
    json!([
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": GATEWAY},
        {"kind": "ServiceAccount", "name": GATEWAY, "namespace": NAMESPACE},
    ])
}
