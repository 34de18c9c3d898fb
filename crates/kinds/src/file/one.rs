//! A file of language 1: every field is required, and it becomes the file of language 2 that says the same.

use super::{Unread, two};
use crate::companions::CORE;
use serde::Deserialize;
use serde_saphyr::Spanned;

/// A complete file of language 1.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct KindFile {
    plural: Spanned<String>,
    placement: PlacementFile,
    carried_annotations: Vec<String>,
    suspend_annotation: Option<String>,
    status: StatusFile,
    companions: Option<CompanionsFile>,
    write_back: Option<two::WriteBackFile>,
    interpreter: Option<two::InterpreterFile>,
    #[serde(default, rename = "language")]
    _language: Unread,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PlacementFile {
    path: Spanned<String>,
    label: Spanned<String>,
    policy_prefix: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct StatusFile {
    counters: Vec<String>,
    own_conditions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct CompanionsFile {
    expected_annotation: Option<String>,
    error_annotation: Option<String>,
    references: Vec<ReferenceFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ReferenceFile {
    kind: Spanned<KindName>,
    path: Spanned<String>,
    name_field: String,
    may_be_optional: bool,
}

/// The kinds that a reference may name.
#[derive(Deserialize)]
enum KindName {
    ConfigMap,
    Secret,
}

impl From<KindFile> for two::KindFile {
    fn from(one: KindFile) -> Self {
        Self {
            _language: None,
            _scope: None,
            plural: one.plural,
            placement: two::PlacementFile {
                path: one.placement.path,
                label: one.placement.label,
                policy_prefix: one.placement.policy_prefix,
                cardinality: None,
                immutable: None,
                require_member_api: None,
            },
            carried_annotations: one.carried_annotations,
            suspend_annotation: one.suspend_annotation,
            suspension: None,
            status: two::StatusFile {
                counters: one.status.counters,
                own_conditions: Some(one.status.own_conditions),
                ..two::StatusFile::default()
            },
            companions: one.companions.map(|section| two::CompanionsFile {
                expected_annotation: section.expected_annotation,
                error_annotation: section.error_annotation,
                references: section.references.into_iter().map(Into::into).collect(),
            }),
            write_back: one.write_back,
            deletion: two::DeletionFile::default(),
            returns: Vec::new(),
            interpreter: one.interpreter,
        }
    }
}

impl From<ReferenceFile> for two::ReferenceFile {
    fn from(one: ReferenceFile) -> Self {
        let [map, secret] = CORE;
        let (name, _) = match one.kind.value {
            KindName::ConfigMap => map,
            KindName::Secret => secret,
        };
        let Spanned {
            referenced, defined, ..
        } = one.kind;
        Self {
            api_version: None,
            kind: Spanned::new(name.to_owned(), referenced, defined),
            plural: None,
            path: one.path,
            name_field: Some(one.name_field),
            required: None,
            may_be_optional: Some(Spanned::new(one.may_be_optional, referenced, defined)),
            before: None,
            adopted: None,
            max_bytes: None,
        }
    }
}
