//! Errors of kubeconfigs, and of the credentials that they name. None has a part of a credential.

use crate::Malformed;
use kube::{Config, client::AuthError, config::ExecConfig};
use std::{error::Error, io, path::PathBuf};

/// Reason why a kubeconfig cannot be used. Its source, if there is one, is the cause.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No file exists.
    #[error("there is no kubeconfig")]
    NoFile,
    /// A file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// A file is no kubeconfig.
    #[error("{file} is no kubeconfig")]
    Malformed {
        /// The file.
        file: String,
        /// The reason.
        #[source]
        cause: Malformed,
    },
    /// Neither the command line nor the kubeconfig names a context.
    #[error("no context is set")]
    NoContext,
    /// The kubeconfig has no entry of this kind and name.
    #[error("the kubeconfig has no {0} {1:?}")]
    Unknown(&'static str, String),
    /// A field cannot be used: its name, and why.
    #[error("{0} of the context cannot be used: {1}")]
    Field(&'static str, &'static str),
    /// The proxy cannot be used: where it comes from, and why.
    #[error("the proxy of {0} cannot be used: {1}")]
    Proxy(&'static str, &'static str),
    /// The credential plugin has to ask the user.
    #[error("{0} has to ask you (interactiveMode: Always), and standard input is no terminal")]
    NeedsTerminal(String),
    /// The id-token of an auth-provider has expired; kubectl renews it and writes the new one into the kubeconfig.
    #[error(
        "the oidc token of the context's user has expired; kubectl renews it: kubectl auth whoami --context {0}"
    )]
    TokenExpired(String),
}

/// The cause of credentials that cannot be made. The program that makes them is known while the client is made.
pub fn cause(error: &AuthError, exec: Option<&ExecConfig>) -> String {
    let program = exec.and_then(|exec| exec.command.as_deref());
    let program = program.unwrap_or("the credential plugin");
    match error {
        AuthError::AuthExecStart(error) => {
            let hint = exec
                .and_then(|exec| exec.install_hint.as_deref())
                .unwrap_or_default()
                .trim();
            let hint = if hint.is_empty() {
                String::new()
            } else {
                format!("; {hint}")
            };
            format!("{program} cannot be started: {}{hint}", plain(&error.to_string()))
        }
        AuthError::AuthExecRun { out, .. } => {
            let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            let colon = if words.is_empty() { "" } else { ": " };
            format!("{program} failed with {}{colon}{words}", out.status)
        }
        // The parser shows the lines around a fault, which may have credentials.
        AuthError::AuthExecParse(_) => format!("{program} printed no ExecCredential"),
        AuthError::ExecPluginFailed => format!("{program} printed an ExecCredential without a status"),
        AuthError::ReadTokenFile(error, path) => {
            format!("{} cannot be read: {}", path.display(), plain(&error.to_string()))
        }
        other => root(other),
    }
}

/// The cause of a client that cannot be made.
pub fn client_cause(error: &kube::Error, config: &Config) -> String {
    match error {
        kube::Error::Auth(error) => cause(error, config.auth_info.exec.as_ref()),
        other => root(other),
    }
}

/// The innermost cause of an error: the outer ones say that a request failed.
pub fn root(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    plain(&innermost.to_string())
}

/// The text of an error of the operating system without its number.
pub fn plain(text: &str) -> String {
    let numbered = text
        .rsplit_once(" (os error ")
        .filter(|(_, number)| number.ends_with(')'));
    numbered.map_or(text, |(text, _)| text).to_owned()
}
