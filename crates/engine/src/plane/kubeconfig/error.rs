//! Errors of a kubeconfig, with their location.

use super::SERVICE_ACCOUNT;
use fedgate_kubeconfig::Malformed;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Origin of a kubeconfig, in the terms of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// Key `kubeconfig` of a Secret on the plane that holds the projects' credentials.
    Secret {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// The service account of the Pod that this process runs in.
    InCluster,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "kubeconfig file {}", path.display()),
            Self::Secret { namespace, name } => write!(f, "Secret {namespace}/{name}, key kubeconfig"),
            Self::InCluster => write!(f, "in-cluster service account in {SERVICE_ACCOUNT}"),
        }
    }
}

/// Reason why a kubeconfig is rejected. Never contains a part of a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// A file cannot be read.
    #[error("{origin}: field {field}: cannot read {}: {cause}; make the file readable for this process or correct the path", .path.display())]
    Unreadable {
        /// The kubeconfig.
        origin: Origin,
        /// The field that refers to the file, `(the file itself)` for the kubeconfig.
        field: String,
        /// The file.
        path: PathBuf,
        /// Error text of the operating system.
        cause: String,
    },
    /// Not YAML, or not a kubeconfig.
    #[error(
        "{origin}: not a kubeconfig: {cause}; write it anew, `kubectl config view --raw --minify --flatten` prints one that fits"
    )]
    Malformed {
        /// The kubeconfig.
        origin: Origin,
        /// The reason, with its position if it is known.
        cause: Malformed,
    },
    /// A required field is absent or empty.
    #[error("{origin}: field {field} is missing; {next}")]
    Missing {
        /// The kubeconfig.
        origin: Origin,
        /// The field.
        field: String,
        /// The operator's next step.
        next: &'static str,
    },
    /// A field is not on the allow-list.
    #[error("{origin}: field {field} is refused: {why}; {next}")]
    Refused {
        /// The kubeconfig.
        origin: Origin,
        /// The field.
        field: String,
        /// Reason why the field is not allowed.
        why: &'static str,
        /// The operator's next step.
        next: &'static str,
    },
    /// The value of a field cannot be used.
    #[error("{origin}: field {field}: {why}; correct it and save, it is read again at once")]
    Invalid {
        /// The kubeconfig.
        origin: Origin,
        /// The field.
        field: String,
        /// Reason why the value is invalid.
        why: String,
    },
}

impl KubeconfigError {
    /// The file that could not be read: once it is readable, the kubeconfig may be valid.
    pub fn unreadable(&self) -> Option<&Path> {
        match self {
            Self::Unreadable { path, .. } => Some(path),
            _ => None,
        }
    }
}
