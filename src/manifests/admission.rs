//! Admission policies: what the gateway may delete on the hub, what a cell may write there, and who may use a Network
//! (contract: federation.md §1.1, §6 rule 5, §6 rule 7; api.md §6).

use super::{CELL_USER_PREFIX, CELLS, GATEWAY, Manifest, NAMESPACE, Plane};
use crate::api::{GROUP, VERSION, keys};
use serde_json::{Value, json};

/// All policy files.
pub(super) fn files() -> Vec<Manifest> {
    let file = |path: &str, planes: &'static [Plane], objects: Vec<Value>| Manifest {
        path: path.to_owned(),
        planes,
        objects,
    };
    vec![
        file("hub/gateway-deletes.yaml", &[Plane::Hub], gateway_deletes()),
        file(
            "hub/cell-writes.yaml",
            &[Plane::Hub],
            [cell_writes(), cell_deletes()].concat(),
        ),
        file("project/network-use.yaml", &[Plane::Project], network_use()),
    ]
}

/// A policy and the binding that makes it deny.
fn policy(name: &str, spec: &Value, param_ref: Option<Value>) -> Vec<Value> {
    let mut binding = json!({"policyName": name, "validationActions": ["Deny"]});
    if let Some(param_ref) = param_ref {
        binding["paramRef"] = param_ref;
    }
    let object = |kind: &str, spec: &Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        })
    };
    vec![
        object("ValidatingAdmissionPolicy", spec),
        object("ValidatingAdmissionPolicyBinding", &binding),
    ]
}

fn on(group: &str, version: &str, operations: &[&str], resources: &[&str]) -> Value {
    json!({"resourceRules": [{
        "apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources,
    }]})
}

fn validation(expression: impl Into<String>, message: &str) -> Value {
    json!({"expression": expression.into(), "message": message})
}

/// The gateway deletes only Namespaces of tenants, and only ConfigMaps and Secrets that it made.
fn gateway_deletes() -> Vec<Value> {
    let users = format!("['{GATEWAY}', 'system:serviceaccount:{NAMESPACE}:{GATEWAY}']");
    let labels = "has(oldObject.metadata.labels)";
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on("", "v1", &["DELETE"], &["namespaces", "configmaps", "secrets"]),
        "matchConditions": [{"name": "by-the-gateway", "expression": format!("request.userInfo.username in {users}")}],
        "validations": [
            validation(
                format!(
                    "request.resource.resource != 'namespaces' || (oldObject.metadata.name.startsWith('ns-') && \
                     {labels} && '{}' in oldObject.metadata.labels)",
                    keys::PROJECT_UID
                ),
                "the gateway may delete only Namespaces ns-* that carry fedgate.dev/project-uid",
            ),
            validation(
                format!(
                    "request.resource.resource == 'namespaces' || ({labels} && '{key}' in \
                     oldObject.metadata.labels && oldObject.metadata.labels['{key}'] == 'true')",
                    key = keys::REFERENCED_DATA
                ),
                "the gateway may delete only ConfigMaps and Secrets labelled compute.datumapis.com/referenced-data=true",
            ),
        ],
    });
    policy("fedgate-gateway-deletes", &spec, None)
}

/// A request of a cell.
fn by_a_cell() -> Value {
    json!([{"name": "by-a-cell", "expression": format!("'{CELLS}' in request.userInfo.groups")}])
}

/// The writer's cell: the name of its Karmada Cluster, or nothing for a user without the prefix.
fn writer() -> Value {
    json!({"name": "writer", "expression": format!(
        "request.userInfo.username.startsWith('{CELL_USER_PREFIX}') ? \
         request.userInfo.username.substring({}) : ''", CELL_USER_PREFIX.len()
    )})
}

fn labels_of(name: &str, object: &str) -> Value {
    json!({"name": name, "expression":
        format!("{object} != null && has({object}.metadata.labels) ? {object}.metadata.labels : {{}}")})
}

/// Controllers of our kind among an object's owners, by name.
fn owners_of(name: &str, object: &str) -> Value {
    json!({"name": name, "expression": format!(
        "{object} != null && has({object}.metadata.ownerReferences) ? {object}.metadata.ownerReferences.filter(o, \
         has(o.controller) && o.controller).map(o, o.apiVersion + '/' + o.kind + '/' + o.name) : []"
    )})
}

/// A cell creates and changes only its own write-backs, under the identity of their Namespace and one owner.
fn cell_writes() -> Vec<Value> {
    let cell = keys::CELL;
    let identity = [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE];
    let same = |map: &str| {
        let each = |key: &str| format!("variables.labels[?'{key}'] == {map}[?'{key}']");
        identity.map(each).join(" && ")
    };
    let present = identity
        .map(|key| format!("variables.labels[?'{key}'].orValue('') != ''"))
        .join(" && ");
    let kept = identity.map(|key| {
        format!("(!('{key}' in variables.oldLabels) || variables.labels[?'{key}'] == variables.oldLabels[?'{key}'])")
    });
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on(GROUP, VERSION, &["CREATE", "UPDATE"], &["instances", "instances/status"]),
        "matchConditions": by_a_cell(),
        "variables": [
            writer(),
            labels_of("labels", "object"),
            labels_of("oldLabels", "oldObject"),
            labels_of("home", "namespaceObject"),
            owners_of("owners", "object"),
            owners_of("oldOwners", "oldObject"),
        ],
        "validations": [
            validation(
                format!("variables.writer != '' && variables.labels[?'{cell}'].orValue('') == variables.writer"),
                "fedgate.dev/cell must be the cell that writes: user fedgate-cell-<name>",
            ),
            validation(
                format!("!('{cell}' in variables.oldLabels) || variables.oldLabels['{cell}'] == variables.writer"),
                "this write-back belongs to another cell",
            ),
            validation(
                format!("{present} && {}", same("variables.home")),
                "the labels upstream-cluster-name and upstream-namespace must be those of the Namespace",
            ),
            validation(
                kept.join(" && "),
                "the labels upstream-cluster-name and upstream-namespace of a write-back cannot change",
            ),
            validation(
                format!(
                    "variables.owners.size() == 1 && variables.owners[0] == '{GROUP}/{VERSION}/WorkloadDeployment/' \
                     + variables.labels[?'{}'].orValue('')",
                    keys::WORKLOAD_DEPLOYMENT_NAME
                ),
                "the controller of a write-back must be the WorkloadDeployment that its label \
                 workload-deployment-name names",
            ),
            validation(
                "variables.oldOwners.size() == 0 || variables.oldOwners == variables.owners",
                "a write-back cannot move to another WorkloadDeployment",
            ),
        ],
    });
    policy("fedgate-cell-writes", &spec, None)
}

/// A cell deletes its own write-backs, and another cell's only if its `WorkloadDeployment` has moved to another city.
///
/// The policy is evaluated for each `WorkloadDeployment` of the namespace. Without any, what is left there waits for
/// the garbage collector, and no cell can do harm.
fn cell_deletes() -> Vec<Value> {
    let spec = json!({
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "WorkloadDeployment"},
        "matchConstraints": on(GROUP, VERSION, &["DELETE"], &["instances"]),
        "matchConditions": by_a_cell(),
        "variables": [writer(), labels_of("labels", "oldObject"), labels_of("copy", "params")],
        "validations": [validation(
            format!(
                "variables.labels[?'{cell}'].orValue('') == variables.writer || \
                 variables.labels[?'{name}'].orValue('') != params.metadata.name || \
                 variables.labels[?'{city}'].orValue('') != variables.copy[?'{copy_city}'].orValue('')",
                cell = keys::CELL,
                name = keys::WORKLOAD_DEPLOYMENT_NAME,
                city = keys::INSTANCE_CITY_CODE,
                copy_city = keys::CITY_CODE,
            ),
            "this write-back belongs to another cell, and its WorkloadDeployment has not moved",
        )],
    });
    let params = json!({"selector": {}, "parameterNotFoundAction": "Allow"});
    policy("fedgate-cell-deletes", &spec, Some(params))
}

/// Whoever creates a Workload, or changes its interfaces, needs the verb `use` on each Network.
///
/// One validation per interface, because the API server's budget admits one authorization check in each.
fn network_use() -> Vec<Value> {
    const INTERFACES: usize = 8;
    let checks: Vec<Value> = (0..INTERFACES)
        .map(|i| {
            let network = format!("variables.networks[{i}]");
            json!({
                "expression": format!(
                    "variables.networks.size() <= {i} || authorizer.group('networking.datumapis.com')\
                     .resource('networks').namespace(has({network}.namespace) ? {network}.namespace : \
                     request.namespace).name({network}.name).check('use').allowed()"
                ),
                "message": format!("you may not use the network of interface {i}; ask for the verb use on it"),
                "reason": "Forbidden",
            })
        })
        .collect();
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on(GROUP, VERSION, &["CREATE", "UPDATE"], &["workloads"]),
        "matchConditions": [{
            "name": "interfaces-are-new",
            "expression": "oldObject == null || object.spec.template.spec.networkInterfaces != \
                           oldObject.spec.template.spec.networkInterfaces",
        }],
        "variables": [{
            "name": "networks",
            "expression": "object.spec.template.spec.networkInterfaces.map(i, i.network)",
        }],
        "validations": checks,
    });
    policy("fedgate-network-use", &spec, None)
}
