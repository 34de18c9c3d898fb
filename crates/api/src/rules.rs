//! The CEL rules of the Workload's spec (contract: api.md §6, V1 to V29). [`validate`](super::validate) says them in Rust.

use super::schema::{self, SchemaError};
use serde_json::{Value, json};

/// One rule of the contract, in CEL.
pub(super) struct Rule {
    /// `V1` to `V29`.
    pub(super) id: &'static str,
    /// Where it stands.
    at: &'static [&'static str],
    cel: &'static str,
    /// What a user reads.
    message: &'static str,
}

/// A template label's key, V26.
pub(super) const LABEL_KEY: &str =
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";

const SCALE: &[&str] = &["spec.placements[].scaleSettings"];
const TARGET: &[&str] = &["spec.placements[].scaleSettings.metrics[].resource.target"];
const TEMPLATE: &[&str] = &["spec.template"];
const SPEC: &[&str] = &["spec.template.spec"];
const CONTAINER: &[&str] = &["spec.template.spec.runtime.sandbox.containers[]"];
const PORT: &[&str] = &[
    "spec.template.spec.runtime.sandbox.containers[].ports[]",
    "spec.template.spec.runtime.virtualMachine.ports[]",
];

macro_rules! rule {
    ($id:literal, $at:expr, $message:literal, $cel:expr) => {
        Rule {
            id: $id,
            at: $at,
            cel: $cel,
            message: $message,
        }
    };
}

const RULES: &[Rule] = &[
    rule!(
        "V1",
        &["spec.placements"],
        "placement names must be unique",
        "self.all(p, self.exists_one(q, q.name == p.name))"
    ),
    rule!(
        "V2",
        SCALE,
        "maxReplicas needs metrics",
        "!has(self.maxReplicas) || (has(self.metrics) && size(self.metrics) > 0)"
    ),
    rule!(
        "V3",
        SCALE,
        "maxReplicas must not be below minReplicas",
        "!has(self.maxReplicas) || self.maxReplicas >= self.minReplicas"
    ),
    rule!(
        "V4",
        TARGET,
        "exactly one of value, averageValue and averageUtilization must be set",
        "[has(self.value), has(self.averageValue), has(self.averageUtilization)].filter(x, x).size() == 1"
    ),
    rule!(
        "V6",
        &["spec.template.spec.runtime"],
        "exactly one of sandbox and virtualMachine must be set",
        "has(self.sandbox) != has(self.virtualMachine)"
    ),
    rule!(
        "V7",
        &["spec.template.spec.runtime.resources"],
        "requests cannot be set: the instance type gives the size",
        "!has(self.requests)"
    ),
    rule!(
        "V8",
        CONTAINER,
        "resources of a container cannot be set: the instance type gives the size",
        "!has(self.resources) || (!has(self.resources.limits) && !has(self.resources.requests))"
    ),
    rule!(
        "V9",
        PORT,
        "a port's name needs a letter and must not contain '--'",
        "self.name.matches('[a-z]') && !self.name.contains('--')"
    ),
    rule!(
        "V10",
        &["spec.template.spec.runtime.sandbox.containers[].env[]"],
        "value must be empty where valueFrom is set",
        "!has(self.valueFrom) || !has(self.value) || self.value == ''"
    ),
    rule!(
        "V11",
        &["spec.template.spec.runtime.sandbox.containers[].env[].valueFrom"],
        "exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef must be set",
        "[has(self.configMapKeyRef), has(self.secretKeyRef), has(self.fieldRef), \
         has(self.resourceFieldRef)].filter(x, x).size() == 1"
    ),
    rule!(
        "V12",
        &["spec.template.spec.runtime.sandbox.containers[].envFrom[]"],
        "exactly one of configMapRef and secretRef must be set",
        "has(self.configMapRef) != has(self.secretRef)"
    ),
    rule!(
        "V13",
        CONTAINER,
        "mount paths of a container must be unique",
        "!has(self.volumeAttachments) || self.volumeAttachments.all(a, !has(a.mountPath) || \
         self.volumeAttachments.exists_one(b, has(b.mountPath) && b.mountPath == a.mountPath))"
    ),
    rule!(
        "V14",
        &["spec.template.spec.volumes[]"],
        "exactly one of disk, configMap and secret must be set",
        "[has(self.disk), has(self.configMap), has(self.secret)].filter(x, x).size() == 1"
    ),
    rule!(
        "V15",
        &["spec.template.spec.volumes"],
        "device names must be unique",
        "self.all(a, !has(a.disk) || !has(a.disk.deviceName) || self.exists_one(b, has(b.disk) && \
         has(b.disk.deviceName) && b.disk.deviceName == a.disk.deviceName))"
    ),
    rule!(
        "V16",
        &["spec.template.spec.volumes[].disk.template.spec.populator"],
        "image and filesystem cannot both be set",
        "!(has(self.image) && has(self.filesystem))"
    ),
    rule!(
        "V17",
        &["spec.template.spec.volumes[].disk.template.spec"],
        "a disk needs an image or a storage request",
        "(has(self.populator) && has(self.populator.image)) || (has(self.resources) && \
         has(self.resources.requests) && 'storage' in self.resources.requests)"
    ),
    rule!(
        "V19",
        SPEC,
        "location and controller are set by the controller, not in a template",
        "!has(self.location) && !has(self.controller)"
    ),
    rule!(
        "V20",
        SPEC,
        "an attachment must name a volume",
        "!has(self.runtime.sandbox) || self.runtime.sandbox.containers.all(c, !has(c.volumeAttachments) || \
         c.volumeAttachments.all(a, has(self.volumes) && self.volumes.exists(v, v.name == a.name)))"
    ),
    rule!(
        "V20",
        SPEC,
        "an attachment must name a volume",
        "!has(self.runtime.virtualMachine) || self.runtime.virtualMachine.volumeAttachments.all(a, \
         has(self.volumes) && self.volumes.exists(v, v.name == a.name))"
    ),
    rule!(
        "V21",
        SPEC,
        "each volume must be attached at least once",
        "!has(self.volumes) || self.volumes.all(v, (has(self.runtime.sandbox) && \
         self.runtime.sandbox.containers.exists(c, has(c.volumeAttachments) && \
         c.volumeAttachments.exists(a, a.name == v.name))) || (has(self.runtime.virtualMachine) && \
         self.runtime.virtualMachine.volumeAttachments.exists(a, a.name == v.name)))"
    ),
    rule!(
        "V22",
        SPEC,
        "a disk that is mounted needs a populator",
        "!has(self.volumes) || self.volumes.all(v, !has(v.disk) || has(v.disk.template.spec.populator) || \
         !((has(self.runtime.sandbox) && self.runtime.sandbox.containers.exists(c, \
         has(c.volumeAttachments) && c.volumeAttachments.exists(a, a.name == v.name && has(a.mountPath)))) || \
         (has(self.runtime.virtualMachine) && self.runtime.virtualMachine.volumeAttachments.exists(a, \
         a.name == v.name && has(a.mountPath)))))"
    ),
    rule!(
        "V23",
        SPEC,
        "the first attachment of a virtual machine must be a disk with an image",
        "!has(self.runtime.virtualMachine) || (has(self.volumes) && self.volumes.exists(v, \
         v.name == self.runtime.virtualMachine.volumeAttachments[0].name && has(v.disk) && \
         has(v.disk.template.spec.populator) && has(v.disk.template.spec.populator.image)))"
    ),
    rule!(
        "V24",
        TEMPLATE,
        "a virtual machine needs the annotation compute.datumapis.com/ssh-keys",
        "!has(self.spec.runtime.virtualMachine) || (has(self.metadata) && has(self.metadata.annotations) && \
         'compute.datumapis.com/ssh-keys' in self.metadata.annotations)"
    ),
    rule!(
        "V25",
        &["spec.template.spec.networkInterfaces[].networkPolicy.ingress[].ports[]"],
        "endPort needs a numeric port that is not above it",
        "!has(self.endPort) || (has(self.port) && type(self.port) == int && self.endPort >= self.port)"
    ),
    rule!(
        "V26",
        &["spec.template.metadata.labels"],
        "a label's key must be a qualified name",
        "self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?\
         [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))"
    ),
    rule!(
        "V27",
        &["spec.placements[]"],
        "exactly one of cityCodes, locations and locationSelector must be set",
        "[has(self.cityCodes), has(self.locations), has(self.locationSelector)].filter(x, x).size() == 1"
    ),
    rule!(
        "V28",
        &["spec.placements[].locationSelector"],
        "locationSelector needs a label or an expression, with values for In and NotIn alone",
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
         (has(self.matchExpressions) && size(self.matchExpressions) > 0)"
    ),
    rule!(
        "V28",
        &["spec.placements[].locationSelector.matchExpressions[]"],
        "locationSelector needs a label or an expression, with values for In and NotIn alone",
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)"
    ),
    rule!(
        "V29",
        &["spec.placements[].locations"],
        "locations must be unique by name",
        "self.all(a, self.exists_one(b, b.name == a.name))"
    ),
];

/// Rules that only [`validate`](super::validate) checks, each with its message. An API server assumes that a field which
/// may be a number or text is as long as a whole request; until Kubernetes 1.33 it therefore estimates that a rule
/// which reads an amount costs more than any rule may.
const NOT_IN_CEL: &[(&str, &str)] = &[
    ("V5", "a target amount must be greater than 0"),
    ("V18", "storage must be 10Gi to 100Gi in whole Gi"),
];

/// True if the definition leaves a rule to the controllers.
#[must_use]
pub fn is_left_to_controllers(id: &str) -> bool {
    NOT_IN_CEL.iter().any(|(rule, _)| *rule == id)
}

/// Adds the rules to the schema of Workload.
pub(super) fn apply(schema: &mut Value) -> Result<(), SchemaError> {
    for rule in RULES {
        for at in rule.at {
            let node = schema::at(schema, at)?;
            let list = node
                .entry("x-kubernetes-validations")
                .or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(json!({"rule": rule.cel, "message": rule.message}));
            }
        }
    }
    Ok(())
}

/// What a user reads when the rule is broken.
pub(super) fn message(id: &str) -> &'static str {
    let in_cel = RULES.iter().map(|rule| (rule.id, rule.message));
    let mut all = in_cel.chain(NOT_IN_CEL.iter().copied());
    all.find(|(rule, _)| *rule == id)
        .map_or("", |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_contract_is_there() {
        let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        ids.dedup();
        ids.extend(NOT_IN_CEL.iter().map(|(rule, _)| *rule));
        ids.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
        let wanted: Vec<String> = (1..=29).map(|n| format!("V{n}")).collect();
        assert_eq!(ids, wanted);
    }

    #[test]
    fn the_expressions_shared_with_rust_are_the_same() {
        let cel = |id: &str| RULES.iter().find(|r| r.id == id).unwrap().cel;
        assert!(cel("V26").contains(LABEL_KEY));
        assert!(cel("V24").contains(crate::keys::SSH_KEYS));
    }
}
