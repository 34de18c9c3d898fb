//! Where the gateway's own conditions on a project's object are: in its status, or in an annotation (contract: clusters.md §1).

use super::{Strings, annotation, status::StatusDigest};
use fedgate_api::keys;
use fedgate_kinds::{ConditionsIn, FederatedKind};
use kube::core::DynamicObject;
use serde_json::Value;

/// Where the gateway's own conditions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionsAt {
    /// In the status.
    Status,
    /// In the annotation.
    Annotation,
    /// In the status; the annotation is of a time when the schema had no conditions.
    StatusAndAnnotation,
}

/// The status of an object with the gateway's own conditions, wherever they are.
pub(super) fn read(
    object: &DynamicObject,
    kind: &FederatedKind,
    words: &mut Strings,
) -> (StatusDigest, ConditionsAt) {
    let status = StatusDigest::of(object.data.get("status"), &kind.status.counters, words);
    let noted = annotation(object, keys::CONDITIONS);
    let own = &kind.status.own_conditions;
    let has_own = own.iter().any(|own| status.condition(own).is_some());
    match (kind.status.conditions_in, noted, has_own) {
        (ConditionsIn::Status, None, _) => (status, ConditionsAt::Status),
        (ConditionsIn::Status, Some(_), true) => (status, ConditionsAt::StatusAndAnnotation),
        (ConditionsIn::Annotation, ..) | (ConditionsIn::Status, Some(_), false) => {
            let noted: Vec<Value> = noted
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default();
            (status.with_own(&noted, own, words), ConditionsAt::Annotation)
        }
    }
}
