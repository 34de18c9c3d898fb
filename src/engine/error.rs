//! One vocabulary for what went wrong and what follows from it (contract: federation.md §3.1).

use crate::engine::key::Plane;
use std::time::Duration;

/// What follows from an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again after a growing delay, at least this long.
    Backoff(Duration),
    /// Nothing to try before an event comes.
    AwaitChange,
    /// The object is refused as it is; at most one try in five minutes until it changes.
    Quarantine,
}

/// The closed set of words for log, metric and event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// No connection, or it broke.
    Network,
    /// No answer in time.
    Timeout,
    /// 5xx, or an answer that is no Kubernetes answer.
    Server,
    /// 429.
    Throttled,
    /// 409: someone else wrote first, or a precondition failed.
    Conflict,
    /// 409 on a create: the name is held.
    AlreadyExists,
    /// 404 where the object was thought to exist.
    NotFound,
    /// 410: the version asked for is no longer there.
    Gone,
    /// 401.
    Unauthorized,
    /// 403 for want of rights.
    Forbidden,
    /// 404 for the namespace of what was to be created.
    NamespaceMissing,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The platform has suspended the project.
    ProjectSuspended,
    /// 400, 422, 403 by admission, 413: the object is refused.
    Refused,
    /// This replica holds no Lease.
    NotLeader,
    /// The plane is not engaged.
    NotEngaged,
    /// The plane left the calls before this one unanswered, so it was not sent.
    HeldBack,
}

impl Category {
    /// The word itself.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Server => "server",
            Self::Throttled => "throttled",
            Self::Conflict => "conflict",
            Self::AlreadyExists => "already_exists",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NamespaceMissing => "namespace_missing",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::ProjectSuspended => "project_suspended",
            Self::Refused => "refused",
            Self::NotLeader => "not_leader",
            Self::NotEngaged => "not_engaged",
            Self::HeldBack => "held_back",
        }
    }
}

/// A request that failed, with everything a reader needs to find it.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {object} at {plane} failed ({word}): {message}", word = category.as_str())]
pub struct Failure {
    /// Where the request went.
    pub plane: Plane,
    /// What was asked.
    pub verb: &'static str,
    /// `<kind> <namespace>/<name>`.
    pub object: String,
    /// What kind of failure.
    pub category: Category,
    /// The server's words, or the transport's.
    pub message: String,
    /// What the server, or the gate before a plane that is away, asked for; zero if nothing.
    pub retry_after: Duration,
}

/// A server's `Retry-After` is obeyed up to this.
const RETRY_AFTER_CAP: Duration = Duration::from_secs(30);

impl Failure {
    /// What follows.
    pub fn retry(&self) -> Retry {
        match self.category {
            Category::Network
            | Category::Timeout
            | Category::Server
            | Category::Conflict
            | Category::AlreadyExists
            | Category::NotFound
            | Category::Gone
            | Category::Unauthorized
            | Category::Forbidden => Retry::Backoff(Duration::ZERO),
            Category::Throttled | Category::HeldBack => Retry::Backoff(self.retry_after.min(RETRY_AFTER_CAP)),
            Category::NamespaceMissing
            | Category::NamespaceTerminating
            | Category::ProjectSuspended
            | Category::NotLeader
            | Category::NotEngaged => Retry::AwaitChange,
            Category::Refused => Retry::Quarantine,
        }
    }

    /// Whether what it waits for may come without an event that tells of it.
    pub fn may_strand(&self) -> bool {
        matches!(
            self.category,
            Category::NamespaceMissing | Category::NamespaceTerminating | Category::ProjectSuspended
        )
    }
}

/// Whether an error says that this namespace does not exist.
pub fn misses_namespace(error: &kube::Error, namespace: &str) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|d| d.kind == "namespaces" && d.name == namespace)
}

/// Sorts a client's error into its category and the server's words.
pub fn classify(error: &kube::Error) -> (Category, String, Duration) {
    match error {
        kube::Error::Api(status) => {
            let after = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
            (
                of_status(status),
                status.message.clone(),
                Duration::from_secs(u64::from(after)),
            )
        }
        kube::Error::HyperError(e) => (Category::Network, chain(e), Duration::ZERO),
        kube::Error::Service(e) => {
            let text = chain(e.as_ref());
            let category = if text.contains("timed out") || text.contains("elapsed") {
                Category::Timeout
            } else {
                Category::Network
            };
            (category, text, Duration::ZERO)
        }
        other => (Category::Server, chain(other), Duration::ZERO),
    }
}

fn of_status(status: &kube::core::Status) -> Category {
    let has_cause = |wanted: &str| {
        status
            .details
            .as_ref()
            .is_some_and(|d| d.causes.iter().any(|c| c.reason == wanted))
    };
    match status.code {
        401 => Category::Unauthorized,
        403 if has_cause("NamespaceTerminating") => Category::NamespaceTerminating,
        403 if has_cause("ProjectSuspended") => Category::ProjectSuspended,
        // The authorizer's refusals name a user; those of admission name a policy or a webhook.
        403 if status.message.contains("cannot") && status.message.contains("User ") => Category::Forbidden,
        400 | 403 | 413 | 422 => Category::Refused,
        // Otherwise the kind itself is not served, e.g. while its definition is set up: that says nothing of the object.
        404 if names_object(status) => Category::NotFound,
        409 if status.reason == "AlreadyExists" => Category::AlreadyExists,
        409 => Category::Conflict,
        410 => Category::Gone,
        429 => Category::Throttled,
        504 => Category::Timeout,
        _ => Category::Server,
    }
}

fn names_object(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_some_and(|d| !d.name.is_empty())
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text
}
