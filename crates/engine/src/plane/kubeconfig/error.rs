//! Errors of a kubeconfig, with their location.

use std::path::{Path, PathBuf};

/// Reason why a kubeconfig is rejected: its origin, the field, and the operator's next step. Never contains a part of a
/// credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeconfigError(String, Option<PathBuf>);

impl KubeconfigError {
    pub(super) fn new(origin: &str, problem: &str) -> Self {
        Self(format!("{origin}: {problem}"), None)
    }

    /// A file cannot be read that this field refers to.
    pub(super) fn unreadable_file(origin: &str, field: &str, path: &Path, cause: &str) -> Self {
        let problem = format!(
            "field {field}: cannot read {}: {cause}; make the file readable for this process or correct the path",
            path.display()
        );
        Self(Self::new(origin, &problem).0, Some(path.to_owned()))
    }

    /// The file that could not be read: once it is readable, the kubeconfig may be valid.
    pub fn unreadable(&self) -> Option<&Path> {
        self.1.as_deref()
    }
}
