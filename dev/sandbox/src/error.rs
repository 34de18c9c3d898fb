//! Errors of the sandbox.

use std::path::{Path, PathBuf};

/// Every message names what failed, where, why, and what to do next.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A file or folder could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed, e.g. `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The options contradict themselves or name what does not exist.
    #[error("{0}")]
    Options(String),
    /// Another process owns a sandbox in this folder.
    #[error("the sandbox in {} is in use; run `fedgate-sandbox down --dir {}` or give another --dir", .0.display(), .0.display())]
    InUse(PathBuf),
    /// Processes of an earlier sandbox in this folder did not end.
    #[error("processes of the sandbox in {} have not ended after {seconds} s; find them with `ps ax | grep {}` and end them", dir.display(), dir.display())]
    StillRunning {
        /// The sandbox's folder.
        dir: PathBuf,
        /// Time limit that has passed.
        seconds: u64,
    },
    /// An executable is missing and could not be built.
    #[error("cannot get {program}: {reason}; {next}")]
    Binary {
        /// Name of the executable.
        program: String,
        /// Cause of the error.
        reason: String,
        /// Next step for the user.
        next: String,
    },
    /// A process ended, or did not become ready in time.
    #[error("{process} {what}\nlast lines of {}:\n{tail}\nnext: {next}", log.display())]
    Process {
        /// Name of the process, e.g. `hub kube-apiserver`.
        process: String,
        /// Description of the failure.
        what: String,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        tail: String,
        /// Next step for the user.
        next: String,
    },
    /// An API server refused a request.
    #[error("plane {plane}: cannot {action}: {source}")]
    Api {
        /// The plane.
        plane: String,
        /// The action that failed, with the object's name.
        action: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// A plane did not reach an awaited state.
    #[error("plane {plane}: {what}; look at {}", logs.display())]
    Timeout {
        /// The plane.
        plane: String,
        /// The awaited state, and why the wait ended.
        what: String,
        /// The folder of the logs.
        logs: PathBuf,
    },
    /// A manifest is no Kubernetes object.
    #[error("manifest for {plane}: {reason}")]
    Manifest {
        /// The plane or file.
        plane: String,
        /// The error, with its place.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
}

impl SandboxError {
    /// For `map_err` on file operations.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// For `map_err` on requests.
    pub(super) fn api(plane: &str, action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let (plane, action) = (plane.to_owned(), action.into());
        move |source| Self::Api {
            plane,
            action,
            source: Box::new(source),
        }
    }
}
