//! Refusals, as an API server words them.

use crate::route::Call;
use serde_json::{Map, Value, json};

/// A `Status` of `meta/v1` that says why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// The reason in one word; empty where the server has none.
    pub reason: &'static str,
    /// The reason in a sentence.
    pub message: String,
    /// What the refusal is about: name, group, kind, causes.
    pub details: Value,
}

/// What a request was about, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) group: &'a str,
    /// The plural.
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

impl Subject<'_> {
    fn resource(&self) -> String {
        if self.group.is_empty() {
            self.resource.to_owned()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }

    fn details(&self) -> Value {
        let mut details = Map::new();
        for (key, text) in [
            ("name", self.name),
            ("group", self.group),
            ("kind", self.resource),
        ] {
            if !text.is_empty() {
                details.insert(key.to_owned(), json!(text));
            }
        }
        Value::Object(details)
    }
}

impl Status {
    /// A refusal without details.
    pub(crate) fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(code: u16, reason: &'static str, subject: &Subject<'_>, message: String) -> Self {
        Self {
            details: subject.details(),
            ..Self::plain(code, reason, message)
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    pub(crate) fn not_found(subject: &Subject<'_>) -> Self {
        let message = format!("{} \"{}\" not found", subject.resource(), subject.name);
        Self::about(404, "NotFound", subject, message)
    }

    /// The path names nothing that the server knows.
    pub(crate) fn no_such_path() -> Self {
        Self::plain(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn already_exists(subject: &Subject<'_>) -> Self {
        let message = format!("{} \"{}\" already exists", subject.resource(), subject.name);
        Self::about(409, "AlreadyExists", subject, message)
    }

    pub(crate) fn conflict(subject: &Subject<'_>, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{}\": {why}",
            subject.resource(),
            subject.name
        );
        Self::about(409, "Conflict", subject, message)
    }

    /// The version in the request is not the current one.
    pub(crate) fn stale(subject: &Subject<'_>) -> Self {
        Self::conflict(
            subject,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The object breaks rules; each cause is a field and a message.
    pub(crate) fn invalid(kind: &str, subject: &Subject<'_>, causes: &[(&str, &str, &str)]) -> Self {
        let list: Vec<String> = causes
            .iter()
            .map(|(_, field, message)| format!("{field}: {message}"))
            .collect();
        let what = if subject.group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{}", subject.group)
        };
        let message = format!("{what} \"{}\" is invalid: {}", subject.name, list.join(", "));
        let mut status = Self::about(422, "Invalid", subject, message);
        status.details["kind"] = json!(kind);
        status.details["causes"] = causes
            .iter()
            .map(|(reason, field, message)| json!({"reason": reason, "field": field, "message": message}))
            .collect();
        status
    }

    pub(crate) fn forbidden(subject: &Subject<'_>, why: &str) -> Self {
        let message = format!("{} \"{}\" is forbidden: {why}", subject.resource(), subject.name);
        Self::about(403, "Forbidden", subject, message)
    }

    /// The authorizer's refusal, which names no object that is still to come.
    pub(crate) fn unauthorized(subject: &Subject<'_>, user: &str, call: &Call) -> Self {
        let part = call.subresource.as_ref().map(|part| format!("/{part}"));
        let scope = if call.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", call.namespace)
        };
        let why = format!(
            "User \"{user}\" cannot {} resource \"{}{}\" in API group \"{}\" {scope}",
            call.verb.as_str(),
            subject.resource,
            part.unwrap_or_default(),
            subject.group
        );
        if subject.name.is_empty() {
            let message = format!("{} is forbidden: {why}", subject.resource());
            Self::about(403, "Forbidden", subject, message)
        } else {
            Self::forbidden(subject, &why)
        }
    }

    /// No object may come into a namespace that ends.
    pub(crate) fn terminating(subject: &Subject<'_>, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Self::forbidden(subject, &why);
        status.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        status
    }

    /// The version that a list or a watch asks for is no longer kept.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// The parameters of a list or a watch do not go together.
    pub(crate) fn options(causes: &[(&str, &str, &str)]) -> Self {
        let subject = Subject {
            group: "meta.k8s.io",
            resource: "",
            name: "",
        };
        Self::invalid("ListOptions", &subject, causes)
    }

    pub(crate) fn not_acceptable() -> Self {
        Self::plain(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        )
    }

    pub(crate) fn media_type() -> Self {
        Self::plain(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format",
        )
    }

    /// The whole answer.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            value["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            value["details"] = self.details.clone();
        }
        value
    }
}
