//! The file of a kind with `scope: Cluster`.

use super::Unread;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::collections::{BTreeMap, BTreeSet};

/// A complete file of a kind of which the platform owns every object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct KindFile {
    pub(crate) plural: Spanned<String>,
    #[serde(default, rename = "scope")]
    _scope: Unread,
    pub(crate) platform: PlatformFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PlatformFile {
    #[serde(rename = "from")]
    _from: Origin,
    #[serde(default)]
    pub(crate) selector: SelectorFile,
}

/// The plane on which the platform writes the objects.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Origin {
    Hub,
}

/// A label selector of Kubernetes.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SelectorFile {
    #[serde(default)]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) match_expressions: Vec<ExpressionFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ExpressionFile {
    pub(crate) key: String,
    pub(crate) operator: Spanned<Operator>,
    #[serde(default)]
    pub(crate) values: BTreeSet<String>,
}

/// The operators of a label selector.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}
