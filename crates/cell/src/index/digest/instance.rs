//! Digest of an Instance at the cell.

use super::{Strings, annotation, labels};
use crate::rollout::labels::Labels;
use fedgate_api::{Condition, ConditionStatus, conditions::find, keys};
use fedgate_engine::object::entries;
use jiff::Timestamp;
use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;
use std::sync::Arc;

/// An Instance. The parts of its spec and status add up to the whole, so fields of a newer version are preserved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstanceDigest {
    /// Creation time, in seconds since 1970.
    pub created: i64,
    /// Deletion timestamp of an Instance that is being deleted.
    pub deleted: Option<Timestamp>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `metadata.annotations`, except `keys::RECOVERY` and `keys::GATE_START`.
    pub annotations: Labels,
    /// The provider's recovery annotation, unparsed.
    pub recovery: Option<Arc<str>>,
    /// True if the annotation with the first observation of the referenced-data gate exists.
    pub gate_seen: bool,
    /// `metadata.finalizers`.
    pub finalizers: Arc<[Arc<str>]>,
    /// The controller owner reference.
    pub owner: Option<Owner>,
    /// The spec without `controller`, as JSON text.
    pub spec: Arc<str>,
    /// `spec.controller` as JSON text; empty if absent.
    pub controller: Arc<str>,
    /// `spec.controller.templateHash`.
    pub hash: Option<Arc<str>>,
    /// Names of its scheduling gates.
    pub gates: Arc<[Arc<str>]>,
    /// True if `spec.location` is set.
    pub located: bool,
    /// `status.conditions`.
    pub conditions: Arc<[Condition]>,
    /// `status.suspended`.
    pub suspended: bool,
    /// `status.controller.observedTemplateHash`.
    pub applied: Option<Arc<str>>,
    /// The status without the conditions, as JSON text; empty if absent.
    pub rest: Arc<str>,
}

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// True if the controller is a `WorkloadDeployment`.
    pub is_deployment: bool,
    /// Name of the controller.
    pub name: Arc<str>,
    /// UID of the controller.
    pub uid: Arc<str>,
}

/// Annotations that have a field of their own in the digest and are not part of the template.
const OURS: [&str; 2] = [keys::RECOVERY, keys::GATE_START];

/// Builds the digest of an Instance.
pub fn instance(object: &DynamicObject, words: &mut Strings) -> InstanceDigest {
    let mut spec = object.data["spec"].clone();
    let controller = spec.as_object_mut().and_then(|spec| spec.remove("controller"));
    let controller = controller.unwrap_or_default();
    let located = !spec["location"].is_null();
    let mut status = object.data["status"].clone();
    let conditions = status
        .as_object_mut()
        .and_then(|status| status.remove("conditions"));
    let share = |value: &Value, words: &mut Strings| value.as_str().map(|text| words.intern(text));
    let gates = entries(&controller["schedulingGates"]).iter();
    let gates = gates.filter_map(|gate| share(&gate["name"], words)).collect();
    let finalizers = object.finalizers().iter();
    InstanceDigest {
        created: object.creation_timestamp().map_or(0, |time| time.0.as_second()),
        deleted: object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        generation: object.metadata.generation.unwrap_or_default(),
        labels: labels(object.labels(), words, |_| true),
        annotations: labels(object.annotations(), words, |key| !OURS.contains(&key)),
        recovery: annotation(object, keys::RECOVERY).map(Into::into),
        gate_seen: annotation(object, keys::GATE_START).is_some(),
        finalizers: finalizers.map(|name| words.intern(name.as_str())).collect(),
        owner: owner(object, words),
        spec: words.intern(spec.to_string().as_str()),
        hash: share(&controller["templateHash"], words),
        controller: words.intern(text_unless_null(&controller).as_str()),
        gates,
        located,
        conditions: conditions.map(read_conditions).unwrap_or_default().into(),
        suspended: status["suspended"] == true,
        applied: share(&status["controller"]["observedTemplateHash"], words),
        rest: words.intern(text_unless_null(&status).as_str()),
    }
}

fn text_unless_null(value: &Value) -> String {
    if value.is_null() {
        String::new()
    } else {
        value.to_string()
    }
}

/// Parses the conditions; skips malformed entries.
fn read_conditions(written: Value) -> Vec<Condition> {
    let Value::Array(list) = written else {
        return Vec::new();
    };
    let list = list.into_iter();
    list.filter_map(|one| serde_json::from_value(one).ok()).collect()
}

fn owner(object: &DynamicObject, words: &mut Strings) -> Option<Owner> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(Owner {
        is_deployment: owner.kind == "WorkloadDeployment"
            && owner.api_version.starts_with(fedgate_api::GROUP),
        name: words.intern(owner.name.as_str()),
        uid: words.intern(owner.uid.as_str()),
    })
}

impl InstanceDigest {
    /// The complete spec, including `controller`.
    pub fn whole_spec(&self) -> Value {
        let mut spec: Value = serde_json::from_str(&self.spec).unwrap_or_default();
        if !self.controller.is_empty() {
            spec["controller"] = serde_json::from_str(&self.controller).unwrap_or_default();
        }
        spec
    }

    /// The complete status, including the conditions; `None` if absent.
    pub fn whole_status(&self) -> Option<Value> {
        if self.rest.is_empty() {
            return None;
        }
        let mut status: Value = serde_json::from_str(&self.rest).unwrap_or_default();
        status["conditions"] = serde_json::json!(self.conditions);
        Some(status)
    }

    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        find(&self.conditions, type_)
    }

    /// True if there is a condition of this type, and it is True.
    pub fn is(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|c| c.status == ConditionStatus::True)
    }

    /// True if a deployment controls the Instance.
    pub fn is_deployments(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.is_deployment)
    }

    /// True if the Instance has the finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|known| **known == *name)
    }

    /// True if the Instance has the scheduling gate.
    pub fn has_gate(&self, name: &str) -> bool {
        self.gates.iter().any(|gate| **gate == *name)
    }
}
