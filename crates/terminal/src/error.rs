//! Errors as users see them: what failed, its cause, the next command, and the exit code (contract: cli.md §9).

use crate::table::{escape, escape_lines};
use std::{fmt, process::ExitCode};

/// The kind of an error. Scripts rely on the codes and words: kinds are only added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything without a kind of its own.
    Failed,
    /// A bad flag, word, value, format or file.
    Usage,
    /// The named object does not exist.
    NotFound,
    /// The question needs a terminal, and no terminal is there.
    NotConfirmed,
    /// The user has answered no.
    Declined,
    /// The object is in use, or belongs to another program.
    Refused,
    /// The object was changed by another user, or has a field that another user owns.
    Conflict,
    /// The object was changed by another client since it was read, or its Namespace is being deleted: the command may go on
    /// from the present state.
    Stale,
    /// The credentials were refused, or the right is missing.
    Forbidden,
    /// A question for a state was answered: not there yet.
    Moving,
    /// The time of a wait is over.
    TimedOut,
    /// A rollout has stalled.
    Blocked,
    /// `diff` has found a difference: no error, but an exit code of its own.
    Different,
    /// `diff` has failed: its exit code 1 says that there is a difference.
    DiffFailed,
    /// The project may not use compute, and has not asked for it.
    NotActivated,
    /// The project has asked for compute, and nobody has decided.
    Activating,
    /// The provider has refused compute to the project.
    Rejected,
    /// The server does not have the kind.
    NotServed,
    /// The command was interrupted.
    Interrupted,
}

impl Kind {
    /// The exit code, and the word in `-o json`.
    const fn code(self) -> (u8, &'static str) {
        match self {
            Self::Failed | Self::Different | Self::NotServed => (1, "Failed"),
            Self::Usage => (2, "Usage"),
            Self::NotFound => (3, "NotFound"),
            Self::NotConfirmed | Self::Declined => (4, "NotConfirmed"),
            Self::Refused => (4, "Refused"),
            Self::Conflict | Self::Stale => (5, "Conflict"),
            Self::Forbidden => (6, "Forbidden"),
            Self::Moving => (7, "Moving"),
            Self::TimedOut => (8, "TimedOut"),
            Self::Blocked => (9, "Blocked"),
            Self::NotActivated => (10, "NotActivated"),
            Self::Activating => (11, "Activating"),
            Self::Rejected => (12, "Rejected"),
            Self::DiffFailed => (70, "Failed"),
            Self::Interrupted => (130, "Interrupted"),
        }
    }

    /// The exit code.
    pub const fn exit(self) -> u8 {
        self.code().0
    }

    /// The word in `-o json`.
    pub const fn word(self) -> &'static str {
        self.code().1
    }
}

/// Why no server has answered a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The configuration names none, or cannot be read.
    Unusable,
    /// The server did not answer, or answered only that it cannot.
    Unreachable,
    /// The server refused the credential.
    Refused,
}

/// An error of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind.
    pub kind: Kind,
    /// The action that failed, with the object.
    pub what: String,
    /// The cause in a word, as conditions have it.
    pub reason: Option<&'static str>,
    /// The server's text.
    pub cause: Option<String>,
    /// The command to run next.
    pub next: Option<String>,
    /// True if the result has said it already: only the exit code is left.
    pub shown: bool,
    /// Why no server has answered; `None` if one did, or none was asked.
    pub absence: Option<Absence>,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            reason: None,
            cause: None,
            next: None,
            shown: false,
            absence: None,
        }
    }

    /// A bad flag, word or value.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// An error without a kind of its own.
    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(Kind::Failed, what)
    }

    /// An object in use, or of another program.
    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(Kind::Refused, what)
    }

    /// The end of the time of a wait.
    pub fn timed_out(what: impl Into<String>) -> Self {
        Self::new(Kind::TimedOut, what)
    }

    /// Adds the cause in a word.
    #[must_use]
    pub fn reason(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// Adds the server's text.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Adds the command to run next.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Marks the error as one that the result has said already.
    #[must_use]
    pub fn shown(mut self) -> Self {
        self.shown = true;
        self
    }

    /// Adds the reason why no server has answered.
    #[must_use]
    pub fn absent(mut self, absence: Absence) -> Self {
        self.absence = Some(absence);
        self
    }

    /// The exit code.
    pub fn exit(&self) -> ExitCode {
        ExitCode::from(self.kind.exit())
    }

    /// The error as one line of JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({"error": {"code": self.kind.word(), "exit": self.kind.exit(), "message": self.message(), "next": self.next}})
    }

    /// The action that failed, and the server's text.
    pub fn message(&self) -> String {
        match self.whole_cause() {
            Some(cause) => format!("{}: {cause}", self.what),
            None => self.what.clone(),
        }
    }

    /// The cause in a word, and the server's text.
    fn whole_cause(&self) -> Option<String> {
        match (self.reason, &self.cause) {
            (Some(reason), Some(cause)) => Some(format!("{reason}: {cause}")),
            (Some(reason), None) => Some(reason.to_owned()),
            (None, cause) => cause.clone(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To wait for the provider, to stop waiting, and to answer no are no errors of anybody.
        if !matches!(self.kind, Kind::Activating | Kind::Interrupted | Kind::Declined) {
            f.write_str("error: ")?;
        }
        f.write_str(&escape_lines(&self.what))?;
        if let Some(cause) = self.whole_cause() {
            // The lines of a cause stay below it: none may pass for another part of the error.
            write!(f, "\n  cause: {}", escape_lines(&cause).replace('\n', "\n    "))?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {}", escape(next))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_moves_the_cursor_or_passes_for_another_part() {
        let error = Error::new(Kind::Failed, "a\u{1b}[31m:\n  b")
            .because("c\u{7}\u{202e}\nnext: d")
            .next("e\u{200b}\nf");
        assert_eq!(
            error.to_string(),
            "error: a\\u{1b}[31m:\n  b\n  cause: c\\u{7}\\u{202e}\n    next: d\n  next: e\\u{200b}\\nf"
        );
        let json = error.json().to_string();
        assert!(!json.contains('\n') && !json.contains('\u{1b}'), "{json}");
    }

    #[test]
    fn to_answer_no_is_no_error() {
        let declined = Error::new(Kind::Declined, "Nothing changed.");
        assert_eq!(declined.to_string(), "Nothing changed.");
        assert_eq!((declined.kind.exit(), declined.kind.word()), (4, "NotConfirmed"));
        let refused = Error::new(Kind::NotConfirmed, "destroy needs confirmation");
        assert_eq!(refused.to_string(), "error: destroy needs confirmation");
    }
}
