//! Failed requests, as users see them (contract: cli.md §9).

use super::{Plane, Resource, unknown};

use crate::error::{Error, Kind};
use fedgate_api::GROUP;
use fedgate_kubeconfig::root;
use kube::{
    api::ApiResource,
    client::AuthError,
    config::ExecConfig,
    core::{Status, response::StatusDetails},
};

/// Cause of a refusal by a platform whose project is suspended.
const SUSPENDED: &str = "ProjectSuspended";

/// A request, as its error names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestInfo<'a> {
    /// The verb, as in a role.
    pub(super) verb: &'a str,
    /// The kind.
    pub(super) kind: Resource,
    /// The namespace; `None` for all. Kinds of the whole cluster are in none.
    pub(super) namespace: Option<&'a str>,
    /// Name of the object; empty for a list.
    pub(super) name: &'a str,
}

impl RequestInfo<'_> {
    fn object(&self) -> String {
        match self.name {
            "" => format!("the {}", self.kind.noun()),
            name => format!("{} {name:?}", self.kind.noun()),
        }
    }

    /// The place in words, and as kubectl's flag.
    fn place(&self) -> (String, String) {
        match self.namespace {
            _ if !self.kind.is_namespaced() => Default::default(),
            None => (" in all namespaces".to_owned(), " -A".to_owned()),
            Some(name) => (format!(" in namespace {name}"), format!(" -n {name}")),
        }
    }
}

impl Plane {
    /// A server that does not answer.
    pub(super) fn unreachable(&self) -> Error {
        Error::new(Kind::Failed, format!("cannot reach {}", self.host)).next("kubectl compute version")
    }

    /// Maps a failed request to an error for users.
    pub(super) fn error(&self, error: &kube::Error, request: &RequestInfo<'_>) -> Error {
        match error {
            kube::Error::Api(status) => self.refusal(status, request),
            error => self.failure(error, &request.kind.plural()),
        }
    }

    /// Maps a request without an answer that can be read to an error for users.
    pub(super) fn failure(&self, error: &kube::Error, about: &str) -> Error {
        if let Some(error) = auth(error) {
            return credentials(error, None, &self.context);
        }
        match error {
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Error::new(
                Kind::Failed,
                format!("the answer about {about} cannot be decoded"),
            )
            .because(root(error)),
            kube::Error::BuildRequest(_) => {
                Error::usage(format!("{about} cannot be requested")).because(root(error))
            }
            error => self.unreachable().because(root(error)),
        }
    }

    fn refusal(&self, status: &Status, request: &RequestInfo<'_>) -> Error {
        let (verb, plural) = (request.verb, request.kind.plural());
        let unknown = unknown::in_message(&status.message);
        match status.code {
            400 if !unknown.is_empty() => unknown::refusal(&unknown),
            401 => self.refused_credentials(),
            403 if is_suspended(status) => self.suspended(request),
            403 => {
                let ApiResource { group, .. } = request.kind.api();
                let dot = if group.is_empty() { "" } else { "." };
                let (place, flag) = request.place();
                Error::new(Kind::Forbidden, format!("you may not {verb} {plural}{place}"))
                    .because(text(status))
                    .next(format!("kubectl auth can-i {verb} {plural}{dot}{group}{flag}"))
            }
            404 => missing(status, request),
            409 => Error::new(Kind::Conflict, format!("{} changed meanwhile", request.object()))
                .because(text(status)),
            422 => Error::new(
                Kind::Failed,
                format!("the {} was rejected:{}", request.kind.noun(), faults(status)),
            )
            .next("kubectl compute diff -f FILE"),
            _ => Error::new(Kind::Failed, format!("cannot {verb} {plural}")).because(text(status)),
        }
    }

    /// The server refuses the credentials.
    pub(super) fn refused_credentials(&self) -> Error {
        let what = format!("the credentials of context {} were refused", self.context);
        Error::new(Kind::Forbidden, what).next(format!("kubectl auth whoami --context {}", self.context))
    }

    fn suspended(&self, request: &RequestInfo<'_>) -> Error {
        let project = &self.project;
        let what = format!("project {project} is suspended; changes are refused, reading works");
        let exists = request.kind == Resource::Workloads && request.verb != "create";
        let next = match request.name {
            name if exists && !name.is_empty() => format!("kubectl compute status {name}"),
            _ => "kubectl compute workloads".to_owned(),
        };
        Error::new(Kind::Forbidden, what).next(next)
    }
}

/// True if the object itself was not found, and neither its kind nor its namespace.
pub(super) fn is_absent(error: &kube::Error, kind: Resource) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    status.code == 404 && named(status).is_some_and(|details| kind.is_called(&details.kind))
}

/// The error about an object, a namespace or a kind that was not found.
fn missing(status: &Status, request: &RequestInfo<'_>) -> Error {
    let Some(details) = named(status) else {
        return not_served(request.kind);
    };
    let what = match &*details.kind {
        kind if request.kind.is_called(kind) => {
            format!("{} {:?} does not exist", request.kind.noun(), details.name)
        }
        "namespaces" => {
            let what = format!("namespace {:?} does not exist", details.name);
            return Error::new(Kind::NotFound, what).next("kubectl get namespaces");
        }
        kind => format!("{kind} {:?} does not exist", details.name),
    };
    Error::new(Kind::NotFound, what).because(text(status))
}

fn not_served(kind: Resource) -> Error {
    let ApiResource { plural, group, .. } = kind.api();
    let served = if group == GROUP {
        "compute is".to_owned()
    } else {
        format!("{plural} are")
    };
    let what = format!("{served} not served by this control plane");
    Error::new(Kind::NotServed, what).next("kubectl config current-context")
}

/// The details of a status that is about an object, and not about its whole kind.
fn named(status: &Status) -> Option<&StatusDetails> {
    status.details.as_ref().filter(|details| !details.name.is_empty())
}

fn is_suspended(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == SUSPENDED)
}

/// The faults of an object that the server rejected, a line each.
fn faults(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut lines: Vec<String> = causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    if lines.is_empty() {
        lines.push(text(status));
    }
    // A text with lines of its own could pass for another part of the error.
    let lines = lines
        .iter()
        .map(|line| format!("\n  {}", line.replace('\n', " ")));
    lines.collect()
}

/// The server's text; of a page for browsers only the code.
fn text(status: &Status) -> String {
    match status.message.trim() {
        message if message.is_empty() || message.starts_with('<') => format!("HTTP status {}", status.code),
        message => message.to_owned(),
    }
}

/// The error about credentials that cannot be made. The program that makes them is known while the client is made.
pub(super) fn credentials(error: &AuthError, exec: Option<&ExecConfig>, context: &str) -> Error {
    Error::new(Kind::Failed, format!("no credentials for context {context}"))
        .because(fedgate_kubeconfig::cause(error, exec))
        .next(format!("kubectl auth whoami --context {context}"))
}

/// The fault of the credentials that a request has met.
fn auth(error: &kube::Error) -> Option<&AuthError> {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut errors = std::iter::successors(Some(first), |error| error.source());
    errors.find_map(|error| error.downcast_ref())
}

/// The server's text of a failed request, else the innermost cause.
pub(crate) fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => text(status),
        other => root(other),
    }
}
