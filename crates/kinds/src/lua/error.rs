//! Why a script failed.

/// Why a call of a script gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LuaError {
    /// The text is no Lua 5.1.
    #[error("line {line}: {message}; correct the script")]
    Syntax {
        /// Line in the script, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// The script raised an error, or did what Karmada refuses.
    #[error("the script failed: {0}")]
    Raised(String),
    /// The entry point is missing or no function.
    #[error("the script defines no function {name} (it is {found}); name its entry point so")]
    EntryPoint {
        /// The function that was looked for.
        name: String,
        /// The Lua type found under that name.
        found: &'static str,
    },
    /// Parsing and running took more than a second.
    #[error("the script did not end within 1 s, parsing included; look for an endless loop")]
    Timeout,
    /// The script wanted more memory than a call may have.
    #[error("the script needs more than 16 MiB of memory; build smaller texts and tables")]
    Memory,
    /// A result that Karmada cannot turn into JSON.
    #[error("the result cannot become JSON: {0}")]
    Result(String),
    /// A result of another type than the operation has.
    #[error("the script must return {expected}, it returned {found}")]
    Type {
        /// What the operation returns.
        expected: &'static str,
        /// What came.
        found: String,
    },
}

impl LuaError {
    /// The line of the script that the error names, if it names one.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Syntax { line, .. } => Some(*line),
            Self::Raised(message) => line_of(message).map(|(line, _)| line),
            _ => None,
        }
    }
}

/// Splits `script:12: text` as Lua writes it into line and text.
pub(super) fn line_of(message: &str) -> Option<(usize, &str)> {
    let rest = message.strip_prefix("script:")?;
    let (line, text) = rest.split_once(": ")?;
    Some((line.parse().ok()?, text))
}
