//! Instances at the cell.

use super::{Words, annotation, labels, text};
use crate::{
    api::{Condition, keys},
    cell::instances::labels::Labels,
};
use kube::core::DynamicObject;
use serde_json::Value;
use std::sync::Arc;

/// An Instance. Its spec and status are whole, in parts: what a newer version writes is carried.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Its generation.
    pub generation: i64,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations, but for those below.
    pub annotations: Labels,
    /// What the provider remembers of its crashes, as it is written.
    pub recovery: Option<Arc<str>>,
    /// Whether it is noted when its gate for referenced data was first seen.
    pub gate_seen: bool,
    /// Its finalizers.
    pub finalizers: Arc<[Arc<str>]>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// Its spec but for `controller`, as text.
    pub spec: Arc<str>,
    /// `spec.controller` as text; empty if there is none.
    pub controller: Arc<str>,
    /// `spec.controller.templateHash`.
    pub hash: Option<Arc<str>>,
    /// Names of its scheduling gates.
    pub gates: Arc<[Arc<str>]>,
    /// Whether `spec.location` is there.
    pub located: bool,
    /// `status.conditions`.
    pub conditions: Arc<[Condition]>,
    /// `status.suspended`.
    pub suspended: bool,
    /// `status.controller.observedTemplateHash`.
    pub applied: Option<Arc<str>>,
    /// Its status but for the conditions, as text; empty if it has none.
    pub rest: Arc<str>,
}

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Whether it is a deployment.
    pub is_deployment: bool,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
}

/// Annotations that have a field of their own, and say nothing of the template.
const OURS: [&str; 2] = [keys::RECOVERY, keys::GATE_START];

/// Reads an Instance.
pub fn instance(object: &DynamicObject, words: &mut Words) -> Instance {
    let meta = &object.metadata;
    let mut spec = object.data["spec"].clone();
    let controller = spec.as_object_mut().and_then(|spec| spec.remove("controller"));
    let controller = controller.unwrap_or_default();
    let located = !spec["location"].is_null();
    let mut status = object.data["status"].clone();
    let conditions = status
        .as_object_mut()
        .and_then(|status| status.remove("conditions"));
    let share = |value: &Value, words: &mut Words| value.as_str().map(|text| words.share(text));
    let gates = controller["schedulingGates"].as_array().into_iter().flatten();
    let gates = gates.filter_map(|gate| share(&gate["name"], words)).collect();
    let finalizers = meta.finalizers.iter().flatten();
    Instance {
        created: meta
            .creation_timestamp
            .as_ref()
            .map_or(0, |time| time.0.as_second()),
        generation: meta.generation.unwrap_or_default(),
        labels: labels(meta.labels.as_ref(), words, |_| true),
        annotations: labels(meta.annotations.as_ref(), words, |key| !OURS.contains(&key)),
        recovery: annotation(object, keys::RECOVERY).map(Into::into),
        gate_seen: annotation(object, keys::GATE_START).is_some(),
        finalizers: finalizers.map(|name| words.share(name.as_str())).collect(),
        owner: owner(object, words),
        spec: words.share(text(&spec).as_str()),
        hash: share(&controller["templateHash"], words),
        controller: words.share(
            if controller.is_null() {
                String::new()
            } else {
                text(&controller)
            }
            .as_str(),
        ),
        gates,
        located,
        conditions: conditions.map(read_conditions).unwrap_or_default().into(),
        suspended: status["suspended"] == true,
        applied: share(&status["controller"]["observedTemplateHash"], words),
        rest: words.share(
            if status.is_null() {
                String::new()
            } else {
                text(&status)
            }
            .as_str(),
        ),
    }
}

/// What of them has the form of a condition.
fn read_conditions(written: Value) -> Vec<Condition> {
    let Value::Array(list) = written else {
        return Vec::new();
    };
    let list = list.into_iter();
    list.filter_map(|one| serde_json::from_value(one).ok()).collect()
}

fn owner(object: &DynamicObject, words: &mut Words) -> Option<Owner> {
    let owners = object.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    Some(Owner {
        is_deployment: owner.kind == "WorkloadDeployment" && owner.api_version.starts_with(crate::api::GROUP),
        name: words.share(owner.name.as_str()),
        uid: words.share(owner.uid.as_str()),
    })
}

impl Instance {
    /// Its spec as it is written.
    pub fn whole_spec(&self) -> Value {
        let mut spec: Value = serde_json::from_str(&self.spec).unwrap_or_default();
        if !self.controller.is_empty() {
            spec["controller"] = serde_json::from_str(&self.controller).unwrap_or_default();
        }
        spec
    }

    /// Its status as it is written; `None` if it has none.
    pub fn whole_status(&self) -> Option<Value> {
        if self.rest.is_empty() {
            return None;
        }
        let mut status: Value = serde_json::from_str(&self.rest).unwrap_or_default();
        status["conditions"] = serde_json::json!(self.conditions);
        Some(status)
    }

    /// Whether it has a gate.
    pub fn has_gate(&self, name: &str) -> bool {
        self.gates.iter().any(|gate| **gate == *name)
    }
}
