//! The fields that all answers have, and the answer to a request that failed.

use crate::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `apiVersion` of every answer.
pub const API_VERSION: &str = "operations.fedgate.dev/v1";

/// An answer: `apiVersion`, `kind`, the header, and the fields of its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answer<T> {
    /// `operations.fedgate.dev/v1`.
    pub api_version: String,
    /// The kind of the answer, e.g. `Overview`.
    pub kind: String,
    /// Fields of every answer.
    #[serde(flatten)]
    pub header: Header,
    /// Fields of this kind.
    #[serde(flatten)]
    pub body: T,
}

/// Fields of every answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The time for which the answer holds, on the clock of the replica.
    pub as_of: Time,
    /// False while first lists are read.
    pub complete: bool,
    /// The planes and kinds whose first lists are read, e.g. `hub: workloaddeployments`; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The replica that answers.
    pub replica: Replica,
}

/// A replica of a gateway or cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replica {
    /// Name of the replica in the Lease.
    pub identity: String,
    /// Whether it leads.
    pub role: ReplicaRole,
    /// The replica that leads; absent if none does, or none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Revision of its source; `unknown` if the build did not know it.
    pub revision: String,
    /// Start of the process.
    pub started_at: Time,
}

/// Whether a replica leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaRole {
    /// The replica holds the Lease and writes.
    Leader,
    /// The replica watches, because another one may write.
    Standby,
    /// The replica runs without election and writes.
    Alone,
}

/// A page of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Value of the parameter `continue` for the next page; absent on the last one.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Number of rows after this page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<usize>,
}

/// The answer to a request that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorAnswer {
    /// `operations.fedgate.dev/v1`.
    pub api_version: String,
    /// `Error`.
    pub kind: String,
    /// The class of the error.
    pub code: ErrorCode,
    /// The reason: the parameter or object and its fault.
    pub message: String,
    /// The next step.
    pub next: String,
}

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ErrorCode {
    /// 400: a parameter is unknown or has a value that is not allowed.
    Invalid,
    /// 401: no bearer token, or a wrong one.
    Unauthorized,
    /// 403: the bearer may not ask this.
    Forbidden,
    /// 404: no such path, project, cell or object.
    NotFound,
    /// 405: only GET and HEAD.
    MethodNotAllowed,
    /// 410: `continue` of another process.
    Expired,
    /// 421: an address without token that was reached under a foreign name.
    Misdirected,
    /// 429: too many requests at a time, or wrong tokens.
    Busy,
    /// 503: not answered in time, or the reviews of `--admin-auth=hub` are not answered.
    Unavailable,
}
