//! Errors of scripts.

/// An error of a call of a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LuaError {
    /// The text is no valid Lua 5.1.
    #[error("line {line}: {message}; correct the script")]
    Syntax {
        /// Line in the script, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// The script raised an error, or called a function that Karmada forbids.
    #[error("the script failed: {0}")]
    Raised(String),
    /// The entry point is missing or no function.
    #[error("the script defines no function {name} (it is {found}); name its entry point so")]
    EntryPoint {
        /// The name of the expected function.
        name: String,
        /// The Lua type of the value under that name.
        found: &'static str,
    },
    /// Parsing and running took more than 1 s.
    #[error("the script did not end within 1 s, parsing included; look for an endless loop")]
    Timeout,
    /// The script exceeded the memory limit of a state.
    #[error("the script needs more than 16 MiB of memory; build smaller texts and tables")]
    Memory,
    /// Karmada cannot convert the result to JSON.
    #[error("the result cannot become JSON: {0}")]
    Result(String),
    /// The result has a different type than the operation requires.
    #[error("the script must return {expected}, it returned {found}")]
    Type {
        /// The type that the operation requires.
        expected: &'static str,
        /// The type of the result.
        found: &'static str,
    },
}

impl LuaError {
    /// The line of the script in the error message, if it has a line.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Syntax { line, .. } => Some(*line),
            Self::Raised(message) => line_of(message).map(|(line, _)| line),
            _ => None,
        }
    }
}

/// Splits Lua's error message `script:12: text` into line and text.
pub(super) fn line_of(message: &str) -> Option<(usize, &str)> {
    let rest = message.strip_prefix("script:")?;
    let (line, text) = rest.split_once(": ")?;
    Some((line.parse().ok()?, text))
}
