//! Errors of the commands as administrators see them: the failure, its cause, the next step, and the exit code (contract:
//! cli.md §9, provisioning.md §8).

use kube::core::Status;
use std::fmt;

/// The kind of an error. Scripts rely on the exit codes: kinds are only added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything without a kind of its own.
    Failed,
    /// A bad flag, value or file.
    Usage,
    /// The named object does not exist.
    NotFound,
    /// The object is in use, or belongs to another.
    Refused,
    /// Another client owns a field.
    Conflict,
    /// Another client has changed the object, or begun to delete its Namespace, since it was read.
    Stale,
    /// The credential is refused, or a permission is missing.
    Forbidden,
    /// The time of a wait is over.
    TimedOut,
}

impl Kind {
    /// The exit code.
    pub const fn exit(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Conflict | Self::Stale => 5,
            Self::Forbidden => 6,
            Self::TimedOut => 8,
        }
    }
}

/// An error of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Its kind.
    pub kind: Kind,
    /// The failure, with object and plane.
    pub what: String,
    /// Its cause, mostly a server's text.
    pub cause: Option<String>,
    /// The next step.
    pub next: Option<String>,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            cause: None,
            next: None,
        }
    }

    /// The same with a cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The same with a next step.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// The error of a request: `what` was tried on a plane.
    pub fn of(error: &kube::Error, what: &str) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status, what),
            other => Self::new(Kind::Failed, format!("cannot {what}"))
                .because(root(other))
                .next("check the server's address in the kubeconfig, the network and the server itself"),
        }
    }

    fn of_status(status: &Status, what: &str) -> Self {
        let (kind, next) = match status.code {
            401 => (
                Kind::Forbidden,
                "give a kubeconfig whose credential the server accepts",
            ),
            403 => (Kind::Forbidden, "use an administrator's kubeconfig"),
            404 => (
                Kind::NotFound,
                "apply the manifests of this plane: fedgate manifests",
            ),
            409 => (Kind::Conflict, CONFLICT),
            _ => return Self::new(Kind::Failed, format!("cannot {what}")).because(&status.message),
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let fields: Vec<String> = causes
            .filter(|cause| cause.reason == "FieldManagerConflict")
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let is_ending = status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .any(|cause| cause.reason == "NamespaceTerminating");
        let is_stale = is_ending || status.reason == "Conflict" && fields.is_empty();
        let (kind, next) = if is_stale {
            (Kind::Stale, STALE)
        } else {
            (kind, next)
        };
        let cause = if fields.is_empty() {
            status.message.clone()
        } else {
            fields.join("; ")
        };
        Self::new(kind, format!("cannot {what}"))
            .because(cause)
            .next(next)
    }
}

const STALE: &str = "another client changes the object all the time; run the command again";
const CONFLICT: &str = "let the owner of the field give it up or set the same value, then run the command again; nothing \
                        was overwritten. --skip-crds leaves CustomResourceDefinitions to their owner";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", plain(&self.what))?;
        if let Some(cause) = &self.cause {
            write!(f, "\n  cause: {}", plain(cause))?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {}", plain(next))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Most characters of a server's text that are shown.
const LONGEST: usize = 2_000;

/// A server's text for a terminal: one line, without control characters.
pub fn plain(text: &str) -> String {
    text.chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The innermost cause, which names the failure.
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conflict_names_field_and_owner_and_the_next_step() {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
            "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".rules",
                                    "message": "conflict with \"kubectl\" using v1"}]}
        }))
        .unwrap();
        let error = Error::of(
            &kube::Error::Api(Box::new(status)),
            "apply ClusterRole x on cell dfw-1",
        );
        assert_eq!(error.kind.exit(), 5);
        let text = error.to_string();
        for part in [
            "ClusterRole x on cell dfw-1",
            ".rules: conflict with \"kubectl\"",
            "next: let the owner",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_namespace_that_ends_is_no_missing_permission() {
        let refused = |causes: serde_json::Value| {
            let status: Status = serde_json::from_value(json!({
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no", "details": {"causes": causes}
            }))
            .unwrap();
            Error::of(&kube::Error::Api(Box::new(status)), "create Secret a/b").kind
        };
        assert_eq!(refused(json!([])), Kind::Forbidden);
        assert_eq!(refused(json!([{"reason": "NamespaceTerminating"}])), Kind::Stale);
    }

    #[test]
    fn a_servers_text_has_no_control_character_and_is_cut() {
        let text = Error::new(Kind::Failed, "a\u{1b}[2Jb\r\nc")
            .because("x".repeat(3 * LONGEST))
            .to_string();
        assert!(!text.contains('\u{1b}') && !text.contains('\r'));
        assert!(text.len() < 2 * LONGEST);
    }
}
