//! What the API servers say was asked of them: their audit logs, JSON lines at level Metadata.

use serde::Deserialize;
use std::{
    fs::File,
    io::{BufRead, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

/// The gateway's user on every plane.
pub(crate) const GATEWAY: &str = "fedgate-gateway";

/// One completed request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) verb: String,
    /// The user, or the one whom the user plays.
    pub(crate) user: UserInfo,
    #[serde(default)]
    impersonated_user: Option<UserInfo>,
    #[serde(default)]
    pub(crate) object_ref: ObjectRef,
    #[serde(default)]
    pub(crate) response_status: ResponseStatus,
    /// RFC 3339 with six digits of a second, so that texts sort by time.
    pub(crate) request_received_timestamp: String,
    pub(crate) stage_timestamp: String,
    #[serde(default)]
    pub(crate) stage: String,
    #[serde(default, rename = "requestURI")]
    pub(crate) request_uri: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct UserInfo {
    #[serde(default)]
    pub(crate) username: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectRef {
    pub(crate) api_group: String,
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResponseStatus {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Entry {
    /// Whether the request asked for a change, Events, Leases and dry runs left out.
    pub(crate) fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        ) && !matches!(self.object_ref.resource.as_str(), "events" | "leases")
            && !self.request_uri.contains("dryRun=All")
    }

    /// Whether the server did what was asked.
    pub(crate) fn succeeded(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }

    /// `patch workloaddeployments/status`, the form in which tests name requests. An apply that made the object is
    /// a `create`.
    pub(crate) fn action(&self) -> String {
        let verb = if self.response_status.code == 201 {
            "create"
        } else {
            &self.verb
        };
        let slash = if self.object_ref.subresource.is_empty() {
            ""
        } else {
            "/"
        };
        format!(
            "{verb} {}{slash}{}",
            self.object_ref.resource, self.object_ref.subresource
        )
    }
}

/// The audit log of one plane.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    path: PathBuf,
    /// The text that each line of this plane has, in a log of several.
    of: String,
}

impl AuditLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            of: String::new(),
        }
    }

    /// Only of a project, in the log that all projects of Milo share.
    #[allow(dead_code, reason = "suite platform alone has such a log")]
    pub(crate) fn of_project(self, name: &str) -> Self {
        let of = format!("\"platform.miloapis.com/scope.name\":\"{name}\"");
        Self { of, ..self }
    }

    /// The end of the log as it is now.
    pub(crate) fn mark(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// All requests completed since the mark whose line contains `part`.
    pub(crate) fn since(&self, mark: u64, part: &str) -> Vec<Entry> {
        let mut file = File::open(&self.path)
            .unwrap_or_else(|error| panic!("open the audit log {}: {error}", self.path.display()));
        // A log shorter than the mark was rotated: what is left of it is read whole.
        if mark <= self.mark() {
            file.seek(SeekFrom::Start(mark)).expect("seek in the audit log");
        }
        BufReader::new(file)
            .lines()
            .map_while(Result::ok)
            .filter(|line| line.contains(part) && line.contains(&self.of))
            .filter_map(|line| serde_json::from_str::<Entry>(&line).ok())
            .map(|mut entry| {
                if let Some(played) = entry.impersonated_user.take() {
                    entry.user = played;
                }
                entry
            })
            .filter(|entry| entry.stage.is_empty() || entry.stage == "ResponseComplete")
            .collect()
    }
}

/// How long after one request another came, nothing if it came before.
pub(crate) fn between(first: &Entry, second: &Entry) -> Duration {
    let at = |entry: &Entry| -> jiff::Timestamp {
        let text = &entry.request_received_timestamp;
        text.parse()
            .unwrap_or_else(|error| panic!("{text} of an audit log is no time: {error}"))
    };
    Duration::try_from(at(second).duration_since(at(first))).unwrap_or_default()
}
