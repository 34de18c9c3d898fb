//! The objects of an Instance besides its Pod: its Service and its `NetworkPolicy`.

use super::decide::Planner;
use crate::{
    index::{
        digest::{self, Attached},
        tables::TableId,
    },
    reason::WriteReason,
    writes::{create, delete, patch, patch_labels},
};
use fedgate_engine::{
    diff,
    plan::{Effect, Target},
    store::table::Row,
};
use serde_json::{Map, Value, json};

/// The differences between Service and `NetworkPolicy`.
pub(super) struct AttachedKind {
    table: TableId,
    /// Extracts the part of a spec that is compared.
    compared: fn(&Value) -> Value,
    /// Write reason for a create or patch.
    reason: WriteReason,
    /// Write reason for a delete while the Instance stays.
    unwanted: WriteReason,
    /// Write reason for a delete together with the Instance.
    stopped: WriteReason,
}

pub(super) const SERVICE: AttachedKind = AttachedKind {
    table: TableId::Services,
    compared: digest::service_spec,
    reason: WriteReason::Service,
    unwanted: WriteReason::ServiceUnwanted,
    stopped: WriteReason::ServiceStopped,
};

pub(super) const POLICY: AttachedKind = AttachedKind {
    table: TableId::NetworkPolicies,
    compared: digest::network_policy_spec,
    reason: WriteReason::NetworkPolicy,
    unwanted: WriteReason::NetworkPolicyUnwanted,
    stopped: WriteReason::NetworkPolicyStopped,
};

impl Planner<'_> {
    fn find_attached(&self, kind: &AttachedKind) -> Option<&Row<Attached>> {
        match kind.table {
            TableId::Services => self.snapshot.service.as_ref(),
            _ => self.snapshot.policy.as_ref(),
        }
    }

    /// The object of this kind that the Instance controls.
    pub(super) fn own_attached(&self, kind: &AttachedKind) -> Option<&Row<Attached>> {
        let found = self.find_attached(kind);
        found.filter(|known| known.digest.owner.as_ref() == Some(&self.instance.uid))
    }

    /// Deletes the object together with its Instance.
    pub(super) fn detach(&self, kind: &AttachedKind) -> Option<Effect> {
        let own = self.own_attached(kind).filter(|own| !own.deleting)?;
        Some(delete(self.target(kind.table), &own.uid, None, kind.stopped))
    }

    /// Creates, patches or deletes the object so that it matches `wanted`.
    pub(super) fn attach(&self, kind: &AttachedKind, wanted: Option<&Value>) -> Option<Effect> {
        let target = self.target(kind.table);
        match (wanted, self.find_attached(kind), self.own_attached(kind)) {
            (Some(wanted), None, _) => Some(create(target, wanted.clone(), kind.reason)),
            (Some(wanted), _, Some(known)) if !known.deleting => {
                let spec = (kind.compared)(&wanted["spec"]);
                if *known.digest.spec == *spec.to_string() {
                    let labels = &known.digest.labels;
                    return relabel(target, &known.uid, wanted, |key| labels.get(key));
                }
                let found: Value = serde_json::from_str(&known.digest.spec).unwrap_or_default();
                // The merge patch also removes fields that were added manually.
                let change = json!({"spec": diff::merge_patch(&found, &spec)?});
                Some(patch(known, target, change, kind.reason))
            }
            (None, _, Some(known)) if !known.deleting => {
                Some(delete(target, &known.uid, None, kind.unwanted))
            }
            _ => None,
        }
    }
}

/// Patches the labels of one of the provider's objects that differ from those of `wanted`.
pub(super) fn relabel<'l>(
    target: Target,
    uid: &str,
    wanted: &Value,
    has: impl Fn(&str) -> Option<&'l str>,
) -> Option<Effect> {
    let wanted = wanted["metadata"]["labels"].as_object()?.iter();
    let differing = wanted.filter(|(key, value)| has(key) != value.as_str());
    let labels: Map<String, Value> = differing
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let is_wrong = !labels.is_empty();
    is_wrong.then(|| patch_labels(target, uid, &Value::Object(labels), WriteReason::ProviderLabels))
}
