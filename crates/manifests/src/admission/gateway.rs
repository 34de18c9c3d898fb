//! Limits of the gateway on the hub. Its role can only name kinds, because RBAC has no label selectors and no name
//! patterns; these policies limit it to its own objects. A push-mode hub keeps the members' administrator tokens in
//! Secrets.

use super::{
    super::{GATEWAY, KindManifests, NAMESPACE},
    annotations_of, is_cell, on, policy, validation,
};
use fedgate_api::keys;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// CEL expression: true for requests of the gateway, authenticated by certificate or by token.
pub(super) fn is_gateway() -> String {
    format!("request.userInfo.username in ['{GATEWAY}', 'system:serviceaccount:{NAMESPACE}:{GATEWAY}']")
}

/// Matches requests of the gateway.
pub(crate) fn by_the_gateway() -> Value {
    json!([{"name": "by-the-gateway", "expression": is_gateway()}])
}

fn rules(operations: &[&str], groups: &[(&str, &str, &[&str])], kinds: &[KindManifests]) -> Value {
    let rule = |group: &str, version: &str, resources: &[&str]| json!({"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources});
    let own = groups
        .iter()
        .map(|(group, version, resources)| rule(group, version, resources));
    let companions: BTreeSet<&(String, String)> = kinds.iter().flat_map(|kind| &kind.companions).collect();
    let companions = companions
        .into_iter()
        .map(|(group, plural)| rule(group, "*", &[plural]));
    json!({"resourceRules": own.chain(companions).collect::<Vec<_>>()})
}

/// The groups of the resources that a policy matches without companions of other kinds.
const OWN_GROUPS: &str = "['', 'work.karmada.io']";

/// CEL expression: true if an object has a label with this value.
pub(crate) fn labelled(object: &str, key: &str, value: &str) -> String {
    format!("(has({object}.metadata.labels) && {object}.metadata.labels[?'{key}'].orValue('') == '{value}')")
}

/// Limits deletes of the gateway to Namespaces of tenants, companions, and bindings in those Namespaces.
pub(super) fn deletes(kinds: &[KindManifests]) -> Vec<Value> {
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": rules(&["DELETE"], &[
            ("", "v1", &["namespaces", "configmaps", "secrets"]),
            ("work.karmada.io", "*", &["resourcebindings"]),
        ], kinds),
        "matchConditions": by_the_gateway(),
        "validations": [
            validation(
                format!(
                    "request.resource.resource != 'namespaces' || (oldObject.metadata.name.startsWith('ns-') && \
                     has(oldObject.metadata.labels) && '{}' in oldObject.metadata.labels)",
                    keys::PROJECT_UID
                ),
                "the gateway may delete only Namespaces ns-* that carry fedgate.dev/project-uid",
            ),
            validation(
                format!(
                    "!(request.resource.resource in ['configmaps', 'secrets']) || {}",
                    labelled("oldObject", keys::REFERENCED_DATA, "true")
                ),
                "the gateway may delete only ConfigMaps and Secrets labelled compute.datumapis.com/referenced-data=true",
            ),
            validation(
                "request.resource.resource != 'resourcebindings' || request.namespace.startsWith('ns-')",
                "the gateway may delete only ResourceBindings in Namespaces ns-*",
            ),
        ],
    });
    if has_companions(kinds)
        && let Some(validations) = spec["validations"].as_array_mut()
    {
        validations.push(validation(
            format!(
                "request.resource.group in {OWN_GROUPS} || {}",
                labelled("oldObject", keys::REFERENCED_DATA, "true")
            ),
            "the gateway may delete only companions labelled compute.datumapis.com/referenced-data=true",
        ));
    }
    policy("fedgate-gateway-deletes", &spec, None)
}

/// Limits writes of the gateway to Namespaces of tenants, companions in them, and ConfigMaps of its own.
pub(super) fn writes(kinds: &[KindManifests]) -> Vec<Value> {
    let companion = |object: &str| labelled(object, keys::REFERENCED_DATA, "true");
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": rules(&["CREATE", "UPDATE"], &[("", "v1", &["namespaces", "configmaps", "secrets"])], kinds),
        "matchConditions": by_the_gateway(),
        "validations": [
            validation(
                "request.resource.resource != 'namespaces' || object.metadata.name.startsWith('ns-')",
                "the gateway may write only Namespaces ns-*",
            ),
            validation(
                format!(
                    "request.resource.resource == 'namespaces' || (request.namespace.startsWith('ns-') && \
                     {} && (oldObject == null || {})) || (request.resource.resource == 'configmaps' && \
                     request.namespace == '{NAMESPACE}' && object.metadata.name.startsWith('fedgate-'))",
                    companion("object"),
                    companion("oldObject"),
                ),
                "the gateway may write only ConfigMaps and Secrets in Namespaces ns-* that are labelled \
                 compute.datumapis.com/referenced-data=true and were before, and ConfigMaps fedgate-* in fedgate-system",
            ),
        ],
    });
    policy("fedgate-gateway-writes", &spec, None)
}

/// True if folders name companions of other kinds than `ConfigMap` and Secret.
fn has_companions(kinds: &[KindManifests]) -> bool {
    kinds.iter().any(|kind| !kind.companions.is_empty())
}

/// Forbids the gateway and cells to assign a hub Namespace to another project: only an operator may.
pub(super) fn reassigning() -> Vec<Value> {
    let key = keys::REASSIGN_TO;
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": on("", "v1", &["CREATE", "UPDATE"], &["namespaces"]),
        "matchConditions": [{"name": "by-the-gateway-or-a-cell", "expression": format!(
            "request.userInfo.username in ['{GATEWAY}', 'system:serviceaccount:{NAMESPACE}:{GATEWAY}'] || {}",
            is_cell()
        )}],
        "variables": [annotations_of("annotations", "object"), annotations_of("oldAnnotations", "oldObject")],
        "validations": [validation(
            format!(
                "!('{key}' in variables.annotations) || \
                 variables.annotations[?'{key}'] == variables.oldAnnotations[?'{key}']"
            ),
            "only an operator may set annotation fedgate.dev/reassign-to on a Namespace",
        )],
    });
    policy("fedgate-reassigning", &spec, None)
}
