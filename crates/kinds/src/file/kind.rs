//! The file of a kind that is federated.

use super::Unread;
use crate::{ByMember, Cardinality, ConditionsIn, FinishedWhen, Required, Suspension};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

/// A complete file. Fields: docs/kinds.md.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct KindFile {
    #[serde(default, rename = "scope")]
    _scope: Unread,
    pub(crate) plural: Spanned<String>,
    pub(crate) placement: PlacementFile,
    #[serde(default)]
    pub(crate) carried_annotations: Vec<String>,
    pub(crate) suspend_annotation: Option<String>,
    pub(crate) suspension: Option<Spanned<Suspension>>,
    #[serde(default)]
    pub(crate) status: StatusFile,
    pub(crate) companions: Option<CompanionsFile>,
    pub(crate) write_back: Option<WriteBackFile>,
    #[serde(default)]
    pub(crate) deletion: DeletionFile,
    #[serde(default)]
    pub(crate) returns: Vec<ReturnFile>,
    pub(crate) interpreter: Option<InterpreterFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PlacementFile {
    pub(crate) path: Spanned<String>,
    pub(crate) label: Spanned<String>,
    pub(crate) policy_prefix: Spanned<String>,
    pub(crate) cardinality: Option<Cardinality>,
    pub(crate) immutable: Option<Spanned<bool>>,
    #[serde(rename = "requireMemberAPI")]
    pub(crate) require_member_api: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct StatusFile {
    #[serde(default)]
    pub(crate) counters: Vec<String>,
    pub(crate) own_conditions: Option<Vec<String>>,
    pub(crate) max_bytes: Option<Spanned<i64>>,
    #[serde(default)]
    pub(crate) conditions_in: ConditionsIn,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct CompanionsFile {
    pub(crate) expected_annotation: Option<String>,
    pub(crate) error_annotation: Option<String>,
    pub(crate) references: Vec<ReferenceFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ReferenceFile {
    pub(crate) api_version: Option<Spanned<String>>,
    pub(crate) kind: Spanned<String>,
    pub(crate) plural: Option<Spanned<String>>,
    pub(crate) path: Spanned<String>,
    pub(crate) name_field: Option<String>,
    pub(crate) required: Option<Spanned<Required>>,
    pub(crate) before: Option<Spanned<Before>>,
    pub(crate) adopted: Option<Spanned<bool>>,
    pub(crate) max_bytes: Option<Spanned<i64>>,
}

/// The state of a companion that an object waits for before it is delivered.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Before {
    Applied,
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WriteBackFile {
    pub(crate) api_version: Spanned<String>,
    pub(crate) kind: Spanned<String>,
    pub(crate) plural: Spanned<String>,
    pub(crate) owner_label: String,
    pub(crate) city_label: String,
    pub(crate) linking_labels: Vec<String>,
    pub(crate) scale_paths: Vec<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DeletionFile {
    pub(crate) finished_when: Option<Spanned<FinishedWhen>>,
    pub(crate) by_member: Option<Spanned<ByMember>>,
    #[serde(default)]
    pub(crate) guards: Vec<GuardFile>,
    pub(crate) abandon: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct GuardFile {
    pub(crate) path: Spanned<String>,
    pub(crate) equals: Spanned<Value>,
    pub(crate) message: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ReturnFile {
    pub(crate) kind: Spanned<ReturnKind>,
    pub(crate) path: Option<Spanned<String>>,
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) allow: Vec<Spanned<String>>,
    pub(crate) max_bytes: Option<Spanned<i64>>,
}

/// The kinds that can go back to the project.
#[derive(Deserialize)]
pub(crate) enum ReturnKind {
    Secret,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct InterpreterFile {
    pub(crate) name: Spanned<String>,
}
