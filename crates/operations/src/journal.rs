//! `GET /journal`: the last writes of this replica.

use crate::{Page, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of writes, newest first.
pub type Journal = Page<JournalRow>;

/// A write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalRow {
    /// Number of the write in this process.
    pub seq: u64,
    /// When it was answered.
    pub at: Time,
    /// Kind of the plane: `hub`, `project` or `cell`.
    pub plane: String,
    /// The project; empty if it belongs to none, or to several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub project: String,
    /// `<resource>.<group> <namespace>/<name>`.
    pub object: String,
    /// `apply`, `patch`, `create`, `delete` and the like.
    pub verb: String,
    /// The reason of the write, from a closed set of words.
    pub reason: String,
    /// `ok`, or the category of the failure.
    pub result: String,
    /// Time until it was answered, in milliseconds.
    pub took_ms: u64,
    /// The version that it led to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The server's words on a failed write, without values of objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}
