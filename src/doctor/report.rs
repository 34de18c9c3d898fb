//! Result of a check.

use std::fmt;

/// Verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No problem.
    Fine,
    /// Undecidable from here, or no problem yet.
    Open,
    /// A problem: the gateway cannot work.
    Bad,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How the check ended.
    pub verdict: Verdict,
    /// The result, with the plane and the object.
    pub text: String,
    /// The next step; empty if none is needed.
    pub next: String,
}

impl Finding {
    pub(super) fn fine(text: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Fine,
            text: text.into(),
            next: String::new(),
        }
    }

    pub(super) fn open(text: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Open,
            text: text.into(),
            next: next.into(),
        }
    }

    pub(super) fn bad(text: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Bad,
            text: text.into(),
            next: next.into(),
        }
    }

    /// An error whose text contains its next step.
    pub(super) fn of_error(error: &impl fmt::Display) -> Self {
        Self::bad(error.to_string(), "")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Fine => "ok  ",
            Verdict::Open => "?   ",
            Verdict::Bad => "FAIL",
        };
        write!(f, "{word} {}", self.text)?;
        if self.next.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.next)
        }
    }
}
