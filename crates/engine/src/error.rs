//! One vocabulary for what went wrong and what follows from it (contract: federation.md §3.1).

use crate::key::Plane;
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
    CircuitOpen,
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
            Self::CircuitOpen => "held_back",
        }
    }

    /// Whether the server has looked at what was asked for, which it does only for whoever may ask for it.
    pub fn was_authorized(self) -> bool {
        matches!(
            self,
            Self::Conflict
                | Self::AlreadyExists
                | Self::NotFound
                | Self::NamespaceMissing
                | Self::NamespaceTerminating
                | Self::ProjectSuspended
                | Self::Refused
        )
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
            Category::Throttled | Category::CircuitOpen => {
                Retry::Backoff(self.retry_after.min(RETRY_AFTER_CAP))
            }
            Category::NamespaceMissing
            | Category::NamespaceTerminating
            | Category::ProjectSuspended
            | Category::NotLeader
            | Category::NotEngaged => Retry::AwaitChange,
            Category::Refused => Retry::Quarantine,
        }
    }

    /// Whether what it waits for may come without an event that tells of it.
    pub fn needs_sweep(&self) -> bool {
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
        403 | 422 if is_of_a_policy_in_setup(status) => Category::Server,
        403 if has_cause("NamespaceTerminating") => Category::NamespaceTerminating,
        403 if has_cause("ProjectSuspended") => Category::ProjectSuspended,
        403 if is_of_the_plane(status) => Category::Forbidden,
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

/// Whether a 403 says something of the plane and nothing of the object: an authorizer refuses a user, admission an object.
fn is_of_the_plane(status: &kube::core::Status) -> bool {
    // What comes after these words may hold anything, also what tenants wrote.
    let said = status.message.split_once("forbidden: ");
    let by_authorizer = said.is_some_and(|(_, why)| why.starts_with("User \"") && why.contains("\" cannot "));
    // A proxy before the server knows no objects, and a webhook says that it is one.
    let by_proxy = status.details.is_none() && !status.message.contains("denied the request");
    by_authorizer || by_proxy
}

/// Whether an admission policy could not be applied at all, as in the half minute in which a server that has started
/// looks for the kind of the policy's parameters: that says nothing of the object.
fn is_of_a_policy_in_setup(status: &kube::core::Status) -> bool {
    let said = status
        .message
        .split_once("forbidden: ValidatingAdmissionPolicy '");
    let why = said.and_then(|(_, rest)| rest.split_once("denied request: "));
    why.is_some_and(|(_, why)| why.starts_with("failed to configure policy: "))
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{
        Status,
        response::{StatusCause, StatusDetails},
    };

    fn forbidden(message: &str, cause: Option<&str>) -> Category {
        let mut status = Status::failure(message, "Forbidden").with_code(403);
        status.details = Some(StatusDetails {
            name: "web".to_owned(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            retry_after_seconds: 0,
            causes: cause
                .map(|reason| StatusCause {
                    reason: reason.to_owned(),
                    message: String::new(),
                    field: String::new(),
                })
                .into_iter()
                .collect(),
        });
        classify(&kube::Error::Api(status.boxed())).0
    }

    #[test]
    fn an_authorizer_refuses_a_user_and_admission_an_object() {
        let table = [
            (
                r#"configmaps "web" is forbidden: User "fedgate" cannot patch resource "configmaps" in API group "" in the namespace "ns""#,
                Category::Forbidden,
            ),
            (
                r#"namespaces is forbidden: User "fedgate" cannot create resource "namespaces" in API group "" at the cluster scope: RBAC: not found"#,
                Category::Forbidden,
            ),
            (
                r#"forbidden: User "fedgate" cannot get path "/x""#,
                Category::Forbidden,
            ),
            (
                r#"things.x.y "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
                Category::Refused,
            ),
            (
                r#"things.x.y "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: forbidden: User "a" cannot do that"#,
                Category::Refused,
            ),
            (
                r#"configmaps "web" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: 5, limited: 5"#,
                Category::Refused,
            ),
            (
                r#"admission webhook "w.x.y" denied the request: no"#,
                Category::Refused,
            ),
        ];
        for (message, category) in table {
            assert_eq!(forbidden(message, None), category, "{message}");
        }
        let terminating = r#"configmaps "web" is forbidden: unable to create new content in namespace ns because it is being terminated"#;
        assert_eq!(
            forbidden(terminating, Some("NamespaceTerminating")),
            Category::NamespaceTerminating
        );
        assert_eq!(
            forbidden("no", Some("ProjectSuspended")),
            Category::ProjectSuspended
        );
    }

    #[test]
    fn a_policy_that_cannot_be_applied_yet_refuses_no_object() {
        let by_policy = |why: &str| {
            let message = format!(
                "instances.compute.datumapis.com \"web-0\" is forbidden: ValidatingAdmissionPolicy 'fedgate-cell-cities' \
                 with binding 'fedgate-cell-cities' denied request: {why}"
            );
            let status = Status::failure(&message, "Invalid").with_code(422);
            classify(&kube::Error::Api(status.boxed())).0
        };
        let setup = "failed to configure policy: failed to find resource referenced by paramKind: \
                     'cluster.karmada.io/v1alpha1, Kind=Cluster'";
        assert_eq!(by_policy(setup), Category::Server);
        assert_eq!(by_policy("the city is another cell's"), Category::Refused);
        assert_eq!(by_policy(&format!("no: {setup}")), Category::Refused);
    }

    #[test]
    fn a_proxy_refuses_the_plane_and_a_webhook_without_details_the_object() {
        let bare = |message: &str| {
            let status = Status::failure(message, "").with_code(403);
            classify(&kube::Error::Api(status.boxed())).0
        };
        assert_eq!(bare("<html>403 Forbidden</html>"), Category::Forbidden);
        assert_eq!(
            bare(r#"admission webhook "w.x.y" denied the request: no"#),
            Category::Refused
        );
    }
}
