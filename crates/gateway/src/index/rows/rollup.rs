//! A deployment as the workload controller reads it: whether it is as that controller writes it, and its part of
//! the Workload's status.

use super::{Strings, annotation, cut, template_digest};
use fedgate_api::{
    Condition, ConditionStatus, Reason, ReplicaCounts, WorkloadDeploymentSpec, WorkloadDeploymentStatus,
    conditions::{self, types},
    keys,
};
use fedgate_engine::diff::Digest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use std::sync::Arc;

/// Conditions of a deployment that explain why nothing serves; of equal ones the first counts.
pub const WHY: [&str; 4] = [
    types::AVAILABLE,
    types::PROGRESSING,
    types::REFERENCED_DATA_READY,
    types::FEDERATED,
];

/// Maximum number of UIDs in annotation [`keys::REPLACES`].
pub const MAX_REPLACED: usize = 16;

/// Maximum length of the annotation, in bytes.
const REPLACES_LIMIT: usize = MAX_REPLACED * 37;

/// The workload controller's digest of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rollup {
    /// Name of its placement.
    pub placement: Arc<str>,
    /// Digest of the fields that the workload controller writes, without the template.
    pub written: Digest,
    /// Digest of the template.
    pub template: Digest,
    /// Its annotation [`keys::REPLACES`]; `None` if that is longer than [`REPLACES_LIMIT`].
    pub replaces: Option<Box<str>>,
    /// Counts of replicas.
    pub counts: ReplicaCounts,
    /// True if Available is True.
    pub available: bool,
    /// True if the status is of the latest generation.
    pub acted: bool,
    /// The conditions of [`WHY`] that are not True, and Progressing if the rollout goes on.
    pub why: Box<[FalseCondition]>,
}

/// A condition that is not True.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FalseCondition {
    kind: &'static str,
    status: ConditionStatus,
    /// True if it is of the latest generation.
    latest: bool,
    reason: Arc<str>,
    message: Arc<str>,
}

impl Rollup {
    /// Digests a deployment; returns a text if it is malformed.
    pub(super) fn read(object: &DynamicObject, words: &mut Strings) -> Result<Self, String> {
        let mut spec = object.data.get("spec").cloned().unwrap_or_default();
        // A malformed one differs as well.
        let stub = json!({"spec": {"runtime": {"resources": {"instanceType": ""}}, "networkInterfaces": []}});
        let template = spec
            .get_mut("template")
            .map_or(Value::Null, |template| std::mem::replace(template, stub.clone()));
        if let Some(fields) = spec.as_object_mut() {
            fields.entry("template").or_insert(stub);
        }
        let spec: WorkloadDeploymentSpec =
            serde_json::from_value(spec).map_err(|e| cut(&e.to_string()).into_owned())?;
        let status = object.data.get("status").cloned();
        let status: Option<WorkloadDeploymentStatus> = serde_json::from_value(status.unwrap_or_default())
            .map_err(|e| cut(&e.to_string()).into_owned())?;
        let status = status.unwrap_or_default();
        let found = |kind: &'static str| Some((kind, conditions::find(&status.conditions, kind)?));
        let available = found(types::AVAILABLE).is_some_and(|(_, c)| c.status == ConditionStatus::True);
        let why = WHY.into_iter().filter_map(found);
        let latest = |observed: Option<i64>| observed.is_some() && observed == object.metadata.generation;
        Ok(Self {
            placement: words.intern(&spec.placement_name),
            written: written(&object.metadata, &spec),
            template: template_digest(&template),
            replaces: annotation(object, keys::REPLACES)
                .filter(|uids| uids.len() <= REPLACES_LIMIT)
                .map(Into::into),
            counts: status.counts,
            available,
            acted: latest(status.observed_generation),
            why: why
                .filter(|(kind, c)| {
                    let goes_on = *kind == types::PROGRESSING && c.reason != Reason::RolloutComplete.as_str();
                    c.status != ConditionStatus::True || goes_on
                })
                .map(|(kind, c)| FalseCondition {
                    kind,
                    status: c.status,
                    latest: latest(c.observed_generation),
                    reason: words.intern(&c.reason),
                    message: words.intern(&cut(&c.message)),
                })
                .collect(),
        })
    }

    /// The status as far as it was read, without times; `generation` is the deployment's.
    pub fn status(&self, generation: i64) -> WorkloadDeploymentStatus {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let available = || Condition::new(types::AVAILABLE, ConditionStatus::True, "", "", now);
        let why = self.why.iter().map(|c| {
            let condition = Condition::new(c.kind, c.status, &c.reason, &c.message, now);
            condition.observed(c.latest.then_some(generation))
        });
        WorkloadDeploymentStatus {
            conditions: self.available.then(available).into_iter().chain(why).collect(),
            counts: self.counts,
            observed_generation: self.acted.then_some(generation),
            ..WorkloadDeploymentStatus::default()
        }
    }
}

/// Digest of the fields that the workload controller writes of a deployment, without the template.
pub fn written(metadata: &ObjectMeta, spec: &WorkloadDeploymentSpec) -> Digest {
    let label = |key| metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let location = spec.location_ref.as_ref().map(|location| &location.name);
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true));
    Digest::of(&json!([
        label(keys::WORKLOAD_UID),
        label(keys::SERVICE_NAME),
        owner.map(|owner| [&owner.kind, &owner.name, &owner.uid]),
        spec.workload_ref,
        spec.placement_name,
        spec.city_code,
        location,
        // Of a city alone the label is not ours: it may be there, and a change of form takes ours away.
        location.and_then(|_| label(keys::INSTANCE_LOCATION)),
        spec.scale_settings,
    ]))
}
