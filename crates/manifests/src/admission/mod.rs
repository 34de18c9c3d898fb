//! Admission policies: limits of the gateway and of cells on the hub, permission to assign a hub namespace to another
//! project, permission to use a Network, and limits of cells in projects (contract: federation.md §1.1, §1.2 rule 10, §6
//! rule 5, §6 rule 7; api.md §6, §9).

pub(super) mod gateway;
mod kinds;
mod quota;

pub(super) use kinds::of_kind;

use super::{
    CELL_ACCOUNT_PREFIX, CELL_ACCOUNTS_GROUP, CELL_USER_PREFIX, CELLS, KindManifests, Manifest, Plane,
};
use fedgate_api::{GROUP, VERSION, keys};
use serde_json::{Value, json};

/// All policy files.
pub(super) fn files(kinds: &[KindManifests]) -> Vec<Manifest> {
    let file = |path: &str, planes: &'static [Plane], objects: Vec<Value>| Manifest {
        path: path.to_owned(),
        planes,
        objects,
    };
    vec![
        file("hub/gateway-deletes.yaml", &[Plane::Hub], gateway::deletes(kinds)),
        file("hub/gateway-writes.yaml", &[Plane::Hub], gateway::writes(kinds)),
        file("hub/reassigning.yaml", &[Plane::Hub], gateway::reassigning()),
        file(
            "hub/cell-writes.yaml",
            &[Plane::Hub],
            [cell_writes(), cell_cities(), cell_deletes()].concat(),
        ),
        file(
            "project/cell-claims.yaml",
            &[Plane::Project],
            quota::cell_claims(),
        ),
        file("project/network-use.yaml", &[Plane::Project], network_use()),
    ]
}

/// A policy, and the binding that makes it deny.
pub(super) fn policy(name: &str, spec: &Value, param_ref: Option<Value>) -> Vec<Value> {
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

pub(super) fn on(group: &str, version: &str, operations: &[&str], resources: &[&str]) -> Value {
    json!({"resourceRules": [{
        "apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources,
    }]})
}

pub(super) fn validation(expression: impl Into<String>, message: &str) -> Value {
    json!({"expression": expression.into(), "message": message})
}

/// A validation with a message computed from the request; `message` is less specific and replaces it if the expression
/// fails.
fn telling(expression: impl Into<String>, telling: impl Into<String>, message: &str) -> Value {
    json!({"expression": expression.into(), "messageExpression": telling.into(), "message": message})
}

/// True for requests of a cell, with either identity.
fn is_cell() -> String {
    format!("('{CELLS}' in request.userInfo.groups || '{CELL_ACCOUNTS_GROUP}' in request.userInfo.groups)")
}

/// Matches requests of a cell.
pub(super) fn by_a_cell() -> Value {
    json!([{"name": "by-a-cell", "expression": is_cell()}])
}

/// The writer's cell: the name of its Karmada Cluster, or empty for a user without the prefix of its group.
pub(super) fn writer() -> Value {
    let after = |prefix: &str, group: &str| {
        format!(
            "'{group}' in request.userInfo.groups && request.userInfo.username.startsWith('{prefix}') ? \
             request.userInfo.username.substring({})",
            prefix.len()
        )
    };
    json!({"name": "writer", "expression": format!(
        "{} : ({} : '')",
        after(CELL_USER_PREFIX, CELLS),
        after(CELL_ACCOUNT_PREFIX, CELL_ACCOUNTS_GROUP),
    )})
}

pub(super) fn labels_of(name: &str, object: &str) -> Value {
    json!({"name": name, "expression":
        format!("{object} != null && has({object}.metadata.labels) ? {object}.metadata.labels : {{}}")})
}

pub(super) fn annotations_of(name: &str, object: &str) -> Value {
    json!({"name": name, "expression": format!(
        "{object} != null && has({object}.metadata.annotations) ? {object}.metadata.annotations : {{}}"
    )})
}

/// Keys of the variable `map` that are neither `allowed` nor unchanged; the variable `old<Map>` holds the old map.
pub(super) fn strange(name: &str, map: &str, allowed: &str) -> Value {
    let (first, rest) = map.split_at(1);
    let old = format!("old{}{rest}", first.to_uppercase());
    json!({"name": name, "expression": format!(
        "variables.{map}.filter(k, !({allowed}) && \
         !(k in variables.{old} && variables.{old}[k] == variables.{map}[k]))"
    )})
}

/// A list of names as a CEL expression.
pub(super) fn names(all: &[&str]) -> String {
    format!("['{}']", all.join("', '"))
}

/// UIDs of new owners that are not the controller: owners that the object did not have before.
fn lesser_owners(name: &str) -> Value {
    json!({"name": name, "expression":
        "!has(object.metadata.ownerReferences) ? [] : object.metadata.ownerReferences.filter(o, \
         !(has(o.controller) && o.controller) && !(oldObject != null && has(oldObject.metadata.ownerReferences) && \
         oldObject.metadata.ownerReferences.exists(p, p.uid == o.uid))).map(o, o.uid)"})
}

/// The controllers among an object's owners, as `apiVersion/kind/name`.
fn owners_of(name: &str, object: &str) -> Value {
    json!({"name": name, "expression": format!(
        "{object} != null && has({object}.metadata.ownerReferences) ? {object}.metadata.ownerReferences.filter(o, \
         has(o.controller) && o.controller).map(o, o.apiVersion + '/' + o.kind + '/' + o.name) : []"
    )})
}

/// The only labels that a write-back may have (contract: federation.md §6 rule 3).
const WRITTEN_LABELS: [&str; 11] = [
    keys::UPSTREAM_CLUSTER,
    keys::UPSTREAM_NAMESPACE,
    keys::CELL,
    keys::WORKLOAD_UID,
    keys::WORKLOAD_DEPLOYMENT_UID,
    keys::INSTANCE_INDEX,
    keys::WORKLOAD_DEPLOYMENT_NAME,
    keys::INSTANCE_CITY_CODE,
    keys::INSTANCE_LOCATION,
    keys::WORKLOAD_NAME,
    keys::PLACEMENT_NAME,
];

/// Limits a cell to its own write-backs, with the identity labels of their Namespace and a single owner. The cell may
/// add no metadata that delays their deletion or that Karmada acts on.
///
/// Metadata set by other clients may stay: a cell that leaves it unchanged may continue to write.
fn cell_writes() -> Vec<Value> {
    let validations = [
        who_writes(),
        whose_tenant(),
        whose_deployment(),
        what_comes_along(),
        how_large(),
    ]
    .concat();
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on(GROUP, VERSION, &["CREATE", "UPDATE"], &["instances", "instances/status"]),
        "matchConditions": by_a_cell(),
        "variables": [
            writer(),
            labels_of("labels", "object"),
            labels_of("oldLabels", "oldObject"),
            labels_of("home", "namespaceObject"),
            annotations_of("annotations", "object"),
            annotations_of("oldAnnotations", "oldObject"),
            owners_of("owners", "object"),
            owners_of("oldOwners", "oldObject"),
            lesser_owners("lesserOwners"),
            strange("strangeLabels", "labels", &format!("k in {}", names(&WRITTEN_LABELS))),
            strange(
                "strangeAnnotations",
                "annotations",
                &format!("k == '{}' && variables.annotations[k].size() <= 64", keys::INSTANCE_UID),
            ),
            json!({"name": "deployment", "expression":
                format!("variables.labels[?'{}'].orValue('')", keys::WORKLOAD_DEPLOYMENT_NAME)}),
        ],
        "validations": validations,
    });
    policy("fedgate-cell-writes", &spec, None)
}

/// The cell label must name the writer, before and after the change.
fn who_writes() -> Vec<Value> {
    let cell = keys::CELL;
    vec![
        validation(
            format!("variables.writer != '' && variables.labels[?'{cell}'].orValue('') == variables.writer"),
            "label fedgate.dev/cell must be the cell that writes: set it to <name>, and log in as user \
             fedgate-cell-<name>",
        ),
        validation(
            format!(
                "!('{cell}' in variables.oldLabels) || variables.oldLabels['{cell}'] == variables.writer"
            ),
            "this write-back belongs to another cell; wait until it is gone",
        ),
    ]
}

/// The identity labels must equal those of the Namespace and never change.
fn whose_tenant() -> Vec<Value> {
    let identity = [keys::UPSTREAM_CLUSTER, keys::UPSTREAM_NAMESPACE];
    let like_home = identity.map(|key| {
        format!(
            "variables.labels[?'{key}'].orValue('') != '' && variables.labels[?'{key}'] == variables.home[?'{key}']"
        )
    });
    let kept = identity.map(|key| {
        format!("(!('{key}' in variables.oldLabels) || variables.labels[?'{key}'] == variables.oldLabels[?'{key}'])")
    });
    vec![
        validation(
            like_home.join(" && "),
            "the labels upstream-cluster-name and upstream-namespace must be those of the Namespace; copy them from it",
        ),
        validation(
            kept.join(" && "),
            "the labels upstream-cluster-name and upstream-namespace of a write-back cannot change; delete it and \
             create it anew",
        ),
    ]
}

/// A single WorkloadDeployment controls a write-back and prefixes its name, so that no cell can take the names of
/// another deployment's write-backs.
fn whose_deployment() -> Vec<Value> {
    vec![
        validation(
            format!(
                "variables.owners.size() == 1 && variables.owners[0] == \
                 '{GROUP}/{VERSION}/WorkloadDeployment/' + variables.deployment"
            ),
            "the controller of a write-back must be the WorkloadDeployment that its label workload-deployment-name \
             names; set metadata.ownerReferences to it",
        ),
        validation(
            "variables.oldOwners.size() == 0 || variables.oldOwners == variables.owners",
            "a write-back cannot move to another WorkloadDeployment; delete it and create it anew",
        ),
        validation(
            "variables.lesserOwners.size() == 0",
            "metadata.ownerReferences of a write-back must be its controller alone; leave the others out",
        ),
        validation(
            "request.operation != 'CREATE' || (object.metadata.name.startsWith(variables.deployment + '-') && \
             object.metadata.name.substring(variables.deployment.size() + 1).matches('^(0|[1-9][0-9]{0,3})$'))",
            "metadata.name of a write-back must be <deployment>-<ordinal>, the ordinal from 0 to 9999; write back \
             no other Instance",
        ),
    ]
}

/// Forbids metadata that delays deletion or that Karmada acts on.
fn what_comes_along() -> Vec<Value> {
    vec![
        telling(
            "variables.strangeLabels.size() == 0",
            format!(
                "'metadata.labels: a cell may not set ' + variables.strangeLabels.join(', ') + '; leave it out, allowed \
                 are {}'",
                WRITTEN_LABELS.join(", ")
            ),
            "metadata.labels: a cell may set only those of a write-back",
        ),
        telling(
            "variables.strangeAnnotations.size() == 0",
            format!(
                "'metadata.annotations: a cell may not set ' + variables.strangeAnnotations.join(', ') + '; leave it \
                 out, allowed is {} of at most 64 characters'",
                keys::INSTANCE_UID
            ),
            "metadata.annotations: a cell may set only fedgate.dev/instance-uid of at most 64 characters",
        ),
        validation(
            "!has(object.metadata.finalizers) || object.metadata.finalizers.all(f, oldObject != null && \
             has(oldObject.metadata.finalizers) && f in oldObject.metadata.finalizers)",
            "metadata.finalizers: a cell may not set any on a write-back; leave them out",
        ),
    ]
}

/// Limits spec and status as text. That of the largest spec which is projected (contract: federation.md §3.8 rule 5) has up to
/// twice as many characters as its JSON, because the text has a space behind each separator.
fn how_large() -> Vec<Value> {
    [("spec", 512 * 1024), ("status", 256 * 1024)]
        .map(|(part, limit)| {
            validation(
                format!("!has(object.{part}) || '%s'.format([object.{part}]).size() <= {limit}"),
                &format!(
                    "{part} of a write-back may have at most {} KiB; write back less",
                    limit / 1024
                ),
            )
        })
        .into()
}

/// Limits a cell to write-backs of its own city and location.
///
/// The API server evaluates the policy for each Cluster; the writer's Cluster has city and location in labels. An
/// administrator has to set the city anyway, because nothing is delivered to a Cluster without it. A Cluster without a
/// location is in none that others could be kept from. A hub without Clusters has no cells.
fn cell_cities() -> Vec<Value> {
    let (city, cell) = (keys::INSTANCE_CITY_CODE, keys::CELL);
    let spec = json!({
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"},
        "matchConstraints": on(GROUP, VERSION, &["CREATE", "UPDATE"], &["instances"]),
        "matchConditions": by_a_cell(),
        "variables": [
            writer(),
            labels_of("labels", "object"),
            labels_of("oldLabels", "oldObject"),
            labels_of("cluster", "params"),
            json!({"name": "city", "expression": format!("variables.labels[?'{city}'].orValue('')")}),
            json!({"name": "home", "expression":
                format!("variables.cluster[?'{}'].orValue('')", keys::CITY_CODE)}),
            json!({"name": "location", "expression":
                format!("variables.labels[?'{}'].orValue('')", keys::INSTANCE_LOCATION)}),
            json!({"name": "site", "expression":
                format!("variables.cluster[?'{}'].orValue('')", keys::LOCATION)}),
        ],
        "validations": [
            telling(
                "params.metadata.name != variables.writer || (variables.home != '' && variables.city == variables.home)",
                format!(
                    "'label {city} is \"' + variables.city + '\", but Cluster ' + variables.writer + ' is in \"' + \
                     variables.home + '\": write the city of your Cluster, or have its label {} corrected'",
                    keys::CITY_CODE
                ),
                "label compute.datumapis.com/city-code must be the city of the writer's Cluster",
            ),
            telling(
                "params.metadata.name != variables.writer || variables.location == '' || variables.site == '' || \
                 variables.location == variables.site",
                format!(
                    "'label {} is \"' + variables.location + '\", but Cluster ' + variables.writer + ' is in \"' + \
                     variables.site + '\": write the location of your Cluster, or have its label {} corrected'",
                    keys::INSTANCE_LOCATION,
                    keys::LOCATION
                ),
                "label compute.datumapis.com/location must be the location of the writer's Cluster",
            ),
            validation(
                format!(
                    "!('{city}' in variables.oldLabels) || '{cell}' in variables.oldLabels || \
                     variables.oldLabels['{city}'] == variables.city"
                ),
                "label compute.datumapis.com/city-code of a write-back that no cell has signed cannot change; it is \
                 another city's",
            ),
        ],
    });
    let params = json!({"selector": {}, "parameterNotFoundAction": "Deny"});
    policy("fedgate-cell-cities", &spec, Some(params))
}

/// Limits a cell to deleting its own write-backs, and another cell's only if their `WorkloadDeployment` has moved to
/// another city or location. One that is delivered to a location has its city in its spec.
///
/// The API server evaluates the policy for each `WorkloadDeployment` of the namespace. Without any, all deletes are
/// allowed: the remaining write-backs only wait for the garbage collector, so a cell can do no harm.
fn cell_deletes() -> Vec<Value> {
    let spec = json!({
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "WorkloadDeployment"},
        "matchConstraints": on(GROUP, VERSION, &["DELETE"], &["instances"]),
        "matchConditions": by_a_cell(),
        "variables": [
            writer(),
            labels_of("labels", "oldObject"),
            labels_of("copy", "params"),
            json!({"name": "location", "expression":
                format!("variables.copy[?'{}'].orValue('')", keys::LOCATION)}),
            json!({"name": "city", "expression": format!(
                "variables.location == '' ? variables.copy[?'{}'].orValue('') : \
                 has(params.spec.cityCode) ? params.spec.cityCode : ''",
                keys::CITY_CODE
            )}),
        ],
        "validations": [
            validation(
                "variables.writer != ''",
                "only a cell deletes write-backs: log in as user fedgate-cell-<name>",
            ),
            validation(
                format!(
                    "variables.labels[?'{cell}'].orValue('') == variables.writer || \
                     variables.labels[?'{name}'].orValue('') != params.metadata.name || \
                     variables.labels[?'{city}'].orValue('') != variables.city || \
                     (variables.location != '' && '{location}' in variables.labels && \
                     variables.labels['{location}'] != variables.location)",
                    cell = keys::CELL,
                    name = keys::WORKLOAD_DEPLOYMENT_NAME,
                    city = keys::INSTANCE_CITY_CODE,
                    location = keys::INSTANCE_LOCATION,
                ),
                "this write-back belongs to another cell, and its WorkloadDeployment has not moved; leave it alone",
            ),
        ],
    });
    let params = json!({"selector": {}, "parameterNotFoundAction": "Allow"});
    policy("fedgate-cell-deletes", &spec, Some(params))
}

/// A user who creates a Workload, or changes its interfaces, needs the verb `use` on each Network.
///
/// Each interface has its own validation, because the API server's cost budget admits a single authorization check in
/// each.
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
