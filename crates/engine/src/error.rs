//! One vocabulary for request failures and the reaction to each (contract: federation.md §3.1).

use crate::{key::Plane, message};
use std::time::Duration;

crate::words! {
    /// How a failed key goes on.
    pub enum Class {
        /// The key is retried after a growing delay.
        Retry = "retry",
        /// The key waits for a change.
        Wait = "wait",
        /// The object is rejected as it is; it is retried when it changes, or after 5 min.
        Quarantine = "quarantine",
        /// The key waits for a permission.
        Right = "right",
    }
}

crate::words! {
    /// The closed set of failure categories for logs, metrics and Events.
    pub enum Category {
        /// The connection failed or broke.
        Network = "network",
        /// The response did not arrive in time, or was a 504.
        Timeout = "timeout",
        /// Any other 5xx, or a response that is not a Kubernetes response.
        Server = "server",
        /// 429 Too Many Requests.
        Throttled = "throttled",
        /// 409: another client wrote first, or a precondition failed.
        Conflict = "conflict",
        /// 409 on a create: the name is taken.
        AlreadyExists = "already_exists",
        /// 404 for an object that was expected to exist.
        NotFound = "not_found",
        /// 410: the requested resourceVersion is no longer available.
        Gone = "gone",
        /// 401.
        Unauthorized = "unauthorized",
        /// 403 by the authorizer: a permission is missing.
        Forbidden = "forbidden",
        /// 404 for the namespace of the object to create.
        NamespaceMissing = "namespace_missing",
        /// The namespace is being deleted.
        NamespaceTerminating = "namespace_terminating",
        /// The platform has suspended the project.
        ProjectSuspended = "project_suspended",
        /// 400, 422, 403 by admission, 413: the object is rejected.
        Refused = "refused",
        /// The replica does not hold the Lease.
        NotLeader = "not_leader",
        /// The plane is not engaged.
        NotEngaged = "not_engaged",
        /// Not sent, because the plane did not answer the previous calls.
        CircuitOpen = "held_back",
        /// The controller panicked.
        Defect = "defect",
    }
}

impl Category {
    /// How a key goes on after a failure of this category.
    pub fn class(self) -> Class {
        match self {
            Self::Network
            | Self::Timeout
            | Self::Server
            | Self::Throttled
            | Self::Conflict
            | Self::AlreadyExists
            | Self::NotFound
            | Self::Gone
            | Self::Unauthorized
            | Self::CircuitOpen
            | Self::Defect => Class::Retry,
            Self::Forbidden => Class::Right,
            Self::NamespaceMissing
            | Self::NamespaceTerminating
            | Self::ProjectSuspended
            | Self::NotLeader
            | Self::NotEngaged => Class::Wait,
            Self::Refused => Class::Quarantine,
        }
    }

    /// True if the server evaluated the request, which it does only for an authorized client.
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

/// A failed request, with all the details needed to find it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{verb} {object} at {plane} failed ({word}): {message}", word = category.as_str())]
pub struct Failure {
    /// The plane that the request was sent to.
    pub plane: Plane,
    /// The verb of the request.
    pub verb: &'static str,
    /// `<kind> <namespace>/<name>`.
    pub object: String,
    /// The category of the failure.
    pub category: Category,
    /// The error message of the server or of the transport, as it may be shown: [`classify`] took values out.
    pub message: String,
    /// The delay that the server, or the circuit breaker of a plane that is down, requires; zero if none.
    pub retry_after: Duration,
}

/// Shortest delay after a controller panicked.
const AFTER_DEFECT: Duration = Duration::from_secs(5);

/// Upper limit for a server's `Retry-After`.
const RETRY_AFTER_CAP: Duration = Duration::from_secs(30);

impl Failure {
    /// A failure for which no server requires a delay.
    pub(crate) fn new(
        plane: &Plane,
        verb: &'static str,
        object: String,
        category: Category,
        message: &str,
    ) -> Self {
        Self {
            plane: plane.clone(),
            verb,
            object,
            category,
            message: message.to_owned(),
            retry_after: Duration::ZERO,
        }
    }

    /// Shortest time until a retry.
    pub fn retry_after(&self) -> Duration {
        match self.category {
            Category::Defect => AFTER_DEFECT,
            Category::Throttled | Category::CircuitOpen => self.retry_after.min(RETRY_AFTER_CAP),
            _ => Duration::ZERO,
        }
    }

    /// True if the cause may end without an event, so that only a sweep can retry the key.
    pub fn needs_sweep(&self) -> bool {
        matches!(
            self.category,
            Category::NamespaceMissing | Category::NamespaceTerminating
        )
    }
}

/// True if the error reports that this namespace does not exist.
pub fn misses_namespace(error: &kube::Error, namespace: &str) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|d| d.kind == "namespaces" && d.name == namespace)
}

/// Maps a client error to its category, message as it may be shown, and `Retry-After`.
pub fn classify(error: &kube::Error) -> (Category, String, Duration) {
    let (category, text, after) = read(error);
    // Cleaned here, so that a log line or a condition that is made of it cannot forget to.
    (category, message::clean(&text).into(), after)
}

fn read(error: &kube::Error) -> (Category, String, Duration) {
    match error {
        kube::Error::Api(status) => {
            let after = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
            (
                of_status(status),
                shown(status),
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

/// The message of a failed request. The text of a 422 repeats values of the object, which may be a tenant's secret, so
/// only the fields and reasons of its causes are taken (contract: operations.md §2.6). A policy's denial has one cause
/// without either: its text stays.
fn shown(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut text = String::new();
    for cause in causes.filter(|_| status.code == 422) {
        // Strict validation of a patch names the fields after the values of the whole object.
        let strict = cause.message.rsplit_once("strict decoding error: ");
        let unknown = strict.map(|(_, fields)| fields);
        let unknown = unknown.filter(|text| cause.field == "patch" && text.starts_with("unknown field \""));
        let parts = [cause.field.as_str(), unknown.unwrap_or(&cause.reason)];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if !text.is_empty() && !parts.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&parts.join(": "));
        if text.len() > message::LENGTH {
            break;
        }
    }
    if text.is_empty() {
        status.message.clone()
    } else {
        text
    }
}

/// True if an API server rejects an apply because the result has `null` in place of a list. This happens if the apply
/// removes the last items of a list of keyed items that an earlier fedgate merge patch had set to `[]`. A merge patch
/// can empty it.
pub fn empties_a_list(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    of_status(status) == Category::Refused && status.message.contains("Invalid value: \"null\"")
}

/// The words with which an API server refuses to apply a field that its definition of the kind lacks; the path precedes them.
const UNDECLARED: &str = "field not declared in schema";

/// True if an API server rejects an apply because its schema lacks a field. It drops that field from a merge patch.
pub fn has_undeclared_field(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.message.contains(UNDECLARED))
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
        // Without a name the kind itself is not served, e.g. while its CRD is being established: no fault of the
        // object.
        404 if names_object(status) => Category::NotFound,
        409 if status.reason == "AlreadyExists" => Category::AlreadyExists,
        409 => Category::Conflict,
        410 => Category::Gone,
        429 => Category::Throttled,
        // An API server answers an apply so: the object is refused as it is, until the definition has the field.
        500 if status.message.contains(UNDECLARED) => Category::Refused,
        504 => Category::Timeout,
        _ => Category::Server,
    }
}

/// True if a 403 concerns the plane and not the object: an authorizer rejects a user, admission rejects an object.
fn is_of_the_plane(status: &kube::core::Status) -> bool {
    // The text after `forbidden: ` may contain anything, including tenant input.
    let said = status.message.split_once("forbidden: ");
    let by_authorizer = said.is_some_and(|(_, why)| why.starts_with("User \"") && why.contains("\" cannot "));
    // A proxy in front of the server sends no details, and a webhook's message contains `denied the request`.
    let by_proxy = status.details.is_none() && !status.message.contains("denied the request");
    by_authorizer || by_proxy
}

/// True if an admission policy could not be evaluated at all, e.g. for about 30 s after a server start, until the
/// server finds the kind of the policy's parameters. It is no fault of the object.
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

/// The error with all its causes, the outermost first.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
    fn all_categories_are_listed_each_once_in_their_order() {
        let words: std::collections::BTreeSet<_> = Category::ALL.iter().map(|one| one.as_str()).collect();
        assert_eq!(words.len(), Category::ALL.len());
        assert!(
            Category::ALL
                .iter()
                .enumerate()
                .all(|(n, one)| *one as usize == n)
        );
        assert_eq!(Category::ALL.last(), Some(&Category::Defect));
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
    fn of_an_invalid_object_only_fields_and_reasons_are_taken() {
        let invalid = |causes: &[(&str, &str)]| {
            let mut status =
                Status::failure(r#"env[0].value: Invalid value: "hunter2": too long"#, "Invalid");
            status.code = 422;
            status.details = Some(StatusDetails {
                causes: causes
                    .iter()
                    .map(|(field, reason)| StatusCause {
                        field: (*field).to_owned(),
                        reason: (*reason).to_owned(),
                        message: r#"Invalid value: "hunter2": too long"#.to_owned(),
                    })
                    .collect(),
                name: "web".to_owned(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                retry_after_seconds: 0,
            });
            classify(&kube::Error::Api(status.boxed())).1
        };
        assert_eq!(
            invalid(&[
                ("env[0].value", "FieldValueInvalid"),
                ("spec.n", "FieldValueRequired")
            ]),
            "env[0].value: FieldValueInvalid, spec.n: FieldValueRequired"
        );
        assert_eq!(
            invalid(&[("", "FieldValueInvalid"), ("spec.n", "")]),
            "FieldValueInvalid, spec.n"
        );
        // A policy's denial has neither, and its text is all that says why.
        let text = "env[0].value: Invalid value: …: too long";
        assert_eq!(invalid(&[("", "")]), text);
        assert_eq!(invalid(&[]), text);
        let mut status = Status::failure("", "Invalid").with_code(422);
        let object = r#"{"data":"hunter2","x":"strict decoding error: hunter3"}"#;
        let message =
            format!("Invalid value: {object:?}: strict decoding error: unknown field \"spec.more\"");
        let cause = StatusCause {
            field: "patch".to_owned(),
            reason: "FieldValueInvalid".to_owned(),
            message,
        };
        status.details = Some(StatusDetails {
            causes: vec![cause],
            name: "web".to_owned(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            retry_after_seconds: 0,
        });
        assert_eq!(
            classify(&kube::Error::Api(status.boxed())).1,
            "patch: unknown field \"spec.more\""
        );
        let many = invalid(&vec![("spec.n", "FieldValueRequired"); 10_000]);
        assert_eq!(many.chars().count(), message::LENGTH);
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
