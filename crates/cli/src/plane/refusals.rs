//! Failed requests, as users see them (contract: cli.md §9).

use super::{Plane, Resource};
use crate::error::{Error, Kind};
use fedgate_api::GROUP;
use kube::{api::ApiResource, core::Status};

/// Cause of a refusal by a platform whose project is suspended.
const SUSPENDED: &str = "ProjectSuspended";

impl Plane {
    /// A server that does not answer.
    pub(super) fn unreachable(&self, error: &kube::Error) -> Error {
        Error::new(Kind::Failed, format!("cannot reach {}", self.host))
            .because(root(error))
            .next("kubectl config get-contexts")
    }

    /// Maps a failed request to an error for users.
    pub(crate) fn error(&self, error: &kube::Error, verb: &str, kind: Resource) -> Error {
        let ApiResource { plural, group, .. } = kind.api();
        let kube::Error::Api(status) = error else {
            return self.unreachable(error).next("kubectl compute version");
        };
        match status.code {
            401 => {
                let what = format!("the credentials of context {} were refused", self.context);
                Error::new(Kind::Forbidden, what)
                    .next(format!("kubectl auth whoami --context {}", self.context))
            }
            403 if is_suspended(status) => Error::new(
                Kind::Forbidden,
                format!(
                    "project {} is suspended; changes are refused, reading works",
                    self.project
                ),
            )
            .next("kubectl compute workloads"),
            403 => {
                let namespace = &self.namespace;
                let what = format!("you may not {verb} {plural} in namespace {namespace}");
                let dot = if group.is_empty() { "" } else { "." };
                let next = format!("kubectl auth can-i {verb} {plural}{dot}{group} -n {namespace}");
                Error::new(Kind::Forbidden, what)
                    .because(&*status.message)
                    .next(next)
            }
            404 if names_object(status) => {
                Error::new(Kind::NotFound, "the workload is gone").because(&*status.message)
            }
            404 => {
                let served = if group == GROUP {
                    "compute is"
                } else {
                    &format!("{plural} are")
                };
                Error::new(
                    Kind::NotServed,
                    format!("{served} not served by this control plane"),
                )
                .next("kubectl config current-context")
            }
            409 => Error::new(Kind::Conflict, "the workload changed meanwhile").because(&*status.message),
            422 => Error::new(
                Kind::Failed,
                format!("the workload was rejected:{}", faults(status)),
            )
            .next("kubectl compute diff -f FILE"),
            _ => Error::new(Kind::Failed, format!("cannot {verb} {plural}")).because(&*status.message),
        }
    }
}

/// True if an object was not found, and not its whole kind.
fn names_object(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| !details.name.is_empty())
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
        lines.push(status.message.clone());
    }
    // A text with lines of its own could pass for another part of the error.
    let lines = lines
        .iter()
        .map(|line| format!("\n  {}", line.replace('\n', " ")));
    lines.collect()
}

/// The server's text of a failed request, else the innermost cause.
pub(crate) fn cause(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => root(other),
    }
}

/// The innermost cause of an error: the outer ones say that a request failed.
fn root(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
